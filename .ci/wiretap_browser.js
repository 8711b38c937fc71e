// The functions that wiretap_browser.py calls in the page of the wiretap.

function openAll() {  // and wait until the toggle events are handled
    nodes.forEach(node => { fill(node); node.firstChild.open = true; });
    return new Promise(done => setTimeout(done));
}

function waitForRows() {  // return the milliseconds since the page began to load
    return new Promise(done => {
        const look = () => document.querySelector("summary .label")
            ? done(performance.now()) : requestAnimationFrame(look);
        look();
    });
}

async function scroll() {  // return the milliseconds
    const frame = () => new Promise(requestAnimationFrame), from = performance.now();
    for (let i = 0; i < 20; i++) { scrollTo(0, i * 800); await frame(); await frame(); }
    return performance.now() - from;
}

function search(text) {  // return the milliseconds
    const from = performance.now();
    $("search").value = text; $("search").oninput(); list.offsetHeight;
    return performance.now() - from;
}

function visible() { return nodes.filter(one => !one.hidden).length; }

function width() {
    return Math.max(document.documentElement.scrollWidth,
        ...[...document.body.children].map(one => one.getBoundingClientRect().right));
}

async function usePage() {  // on the page "broken"; return the titles of the checks that failed
    const failed = [], check = (title, holds) => { if (!holds) failed.push(title); };
    const words = id => $(id).textContent;
    const colour = kind => {
        const i = E.findIndex(e => e.kind === kind);
        go(i);
        return getComputedStyle(nodes[i].querySelector(".arrow")).color;
    };
    const pick = k => { $("sessions").value = k; $("sessions").onchange({target: $("sessions")}); };

    check("the title names the server and the date", document.title.startsWith("demo 1, 20"));
    check("there are four sessions to choose from",
        $("sessions").options.length == 4 && !$("sessions").hidden);
    check("the latest session is shown", E.length == sessions[3].entries.length);
    check("the number of faults is as red as an error",
        getComputedStyle($("facts").lastChild.firstChild).color == colour("error"));
    check("faults are counted", words("facts").endsWith("3 errors2 unanswered7 faults"));
    check("there are several faults, each with a remedy", $("faults").children.length > 4
        && words("faults").split("Remedy").length == $("faults").children.length + 1);
    check("isError looks like neither success nor an error",
        new Set(["result", "isError", "error"].map(colour)).size == 3);

    $("faults").querySelector("button").click();
    const here = document.querySelector(".here");
    check("a click goes to the fault",
        here.querySelector(".label").textContent.startsWith("searching 3 files"));
    check("the fault is in sight",
        here.getBoundingClientRect().top > list.getBoundingClientRect().top);

    const lost = nodes[E.findIndex(e => e.lost.startsWith("given up after 1.5 s"))];
    go(lost.i);
    check("a request that was given up says so and is red", lost.classList.contains("wrong")
        && lost.querySelector(".lost").textContent == "given up after 1.5 s");
    lost.querySelector("summary").click();
    await new Promise(done => setTimeout(done));
    check("a click opens a row with an indented message",
        lost.querySelector("pre").textContent.startsWith("{\n"));

    [...$("kinds").children].find(one => one.textContent === "unanswered").click();
    check("only rows of the chosen kind are shown", visible() == 2);
    search("is in no message");
    check("the page says how many rows the search has found", words("shown").startsWith("0 of"));
    $("faults").querySelector("button").click();
    check("a click on a fault that is not shown shows all rows again",
        words("shown").startsWith("25 of"));

    pick(1);
    check("another session changes the title", document.title.startsWith("library 2.1, 20"));
    check("input_required looks different from success",
        colour("input_required") != colour("result"));
    check("a call that was never retried is a fault", words("faults").includes("never retried"));
    pick(2);
    check("the start of the server is not the slowest response",
        words("facts").includes("3.95 s until the first response")
        && words("facts").includes("30 ms slowest"));
    go(2);
    check("the first response says that it includes the start",
        nodes[2].querySelector(".lat").textContent == "3.95 s with the start");
    pick(0);
    check("a session without faults shows none", words("faults") == "" && E.length == 5);
    return failed;
}
