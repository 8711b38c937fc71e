// What wiretap_browser.py does in the page: a title after "// ==", then an expression.

// == open all
// Toggle events have been handled then.
nodes.forEach(node => { fill(node); node.firstChild.open = true; });
new Promise(done => setTimeout(done))

// == stands
new Promise(done => {
    const look = () => document.querySelector("summary .label")
        ? done(performance.now()) : requestAnimationFrame(look);
    look();
})

// == use
(async () => {
    const frame = () => new Promise(requestAnimationFrame), from = performance.now();
    for (let i = 0; i < 20; i++) { scrollTo(0, i * 8000); await frame(); await frame(); }
    const scrolled = performance.now();
    $("search").value = 'limit\": 777}'; $("search").oninput(); list.offsetHeight;
    return [(scrolled - from) / 20, performance.now() - scrolled,
        nodes.filter(one => !one.hidden).length, document.querySelectorAll(".label").length];
})()

// == width
Math.max(document.documentElement.scrollWidth,
    ...[...document.body.children].map(one => one.getBoundingClientRect().right))

// == part top
scrollTo(0, 0)

// == part list
go(E.findIndex(e => e.lost || ["input_required", "error"].includes(e.kind)))

// == helpers
const colour = kind => {
    const i = E.findIndex(e => e.kind === kind);
    go(i);
    return getComputedStyle(nodes[i].querySelector(".arrow")).color;
};
const words = id => $(id).textContent, visible = () => nodes.filter(one => !one.hidden).length;
const pick = k => { $("sessions").value = k; $("sessions").onchange({target: $("sessions")}); };
const lost = () => nodes[E.findIndex(e => e.lost.startsWith("given up after 1.5 s"))];

// What a person does with the page "broken", and must hold then, one after the other.

// == broken: the title names the server and the date
document.title.startsWith('demo 1, 20')
// == broken: there are three sessions to choose from
$('sessions').options.length == 3 && !$('sessions').hidden
// == broken: the latest session is shown
E.length == sessions[2].entries.length
// == broken: the sum of faults is as red as an error
getComputedStyle($('facts').lastChild.firstChild).color == colour('error')
// == broken: faults are counted
words('facts').endsWith('3 errors2 unanswered7 faults')
// == broken: the map has an axis
[...map.querySelectorAll('span')].map(one => one.textContent).join().startsWith('0.0 s,0.5')
// == broken: each fault has a remedy
words('faults').split('Remedy').length == $('faults').children.length + 1
// == broken: there are several faults
$('faults').children.length > 4
// == broken: a click goes to the fault
$('faults').querySelector('button').click(), true
// == broken: it goes to the right one
document.querySelector('.here .label').textContent.startsWith('searching 3 files')
// == broken: the fault is in sight
document.querySelector('.here').getBoundingClientRect().top > list.getBoundingClientRect().top
// == broken: isError looks like neither success nor an error
new Set(['result', 'isError', 'error'].map(colour)).size == 3
// == broken: what was given up says so
go(lost().i), lost().querySelector('.lost').textContent == 'given up after 1.5 s'
// == broken: and it is red
lost().classList.contains('wrong')
// == broken: a click opens it
lost().querySelector('summary').click(), new Promise(done => setTimeout(done, 0, true))
// == broken: the message is indented
lost().querySelector('pre').textContent.startsWith('{\n')
// == broken: a kind can be chosen
[...$('kinds').children].find(one => one.textContent === 'unanswered').click(), true
// == broken: those of the kind are shown
visible() == 2
// == broken: the map goes to a row of those
map.click(), visible() == 2
// == broken: a search finds nothing
$('search').value = 'is in no message', $('search').oninput(), true
// == broken: and says so
words('shown').startsWith('0 of')
// == broken: where nothing is shown, the map goes to all
map.click(), words('shown').startsWith('25 of')
// == broken: another session has a title of its own
pick(1), document.title.startsWith('library 2.1, 20')
// == broken: input_required looks different from success
colour('input_required') != colour('result')
// == broken: a question that was never retried is named
words('faults').includes('never retried')
// == broken: a session without faults shows none
pick(0), words('faults') == '' && E.length == 5
