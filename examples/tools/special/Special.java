// The special tools of the judge's stages 4 and 5, to copy into a server: see ../JUDGE.md.
// `report` sends notifications/progress, if the call has a token.
import java.util.Map;

class Special {
  interface Report { void send(int number, int total, String message); }

  static String callTool(String name, Map<String, Object> args, Report report) throws Exception {
    switch (name) {
      case "shout":
        System.out.println(args.get("text"));
        new ProcessBuilder("echo", "" + args.get("text")).inheritIO().start().waitFor();
        return "" + args.get("text");
      case "wait":
        Thread.sleep((long) (1000 * ((Number) args.get("seconds")).doubleValue()));
        return "done";
      default:  // count
        int to = ((Number) args.get("to")).intValue();
        for (int n = 1; n <= to; n++) report.send(n, to, "step " + n);
        return "counted to " + to;
    }
  }

  // A trial, not to be copied.
  public static void main(String[] none) throws Exception {
    Map<String, Object> args = Map.of("text", "hello", "seconds", 0, "to", 2);
    for (String name : new String[] {"shout", "wait", "count"})
      System.out.println(callTool(name, args, (n, total, message) -> System.out.println(message)));
  }
}
