// The scripts that wiretap_browser.py runs in the page. Each has a title, and is an expression.

// == open all
// Then wait until the toggle events are handled.
nodes.forEach(node => { fill(node); node.firstChild.open = true; });
new Promise(done => setTimeout(done))

// == wait for rows
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

// Actions and checks on the page "broken", in this order. Each script must return true.

// == broken: the title names the server and the date
document.title.startsWith('demo 1, 20')
// == broken: there are three sessions to choose from
$('sessions').options.length == 3 && !$('sessions').hidden
// == broken: the latest session is shown
E.length == sessions[2].entries.length
// == broken: the number of faults is as red as an error
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
// == broken: the click goes to the right fault
document.querySelector('.here .label').textContent.startsWith('searching 3 files')
// == broken: the fault is in sight
document.querySelector('.here').getBoundingClientRect().top > list.getBoundingClientRect().top
// == broken: isError looks like neither success nor an error
new Set(['result', 'isError', 'error'].map(colour)).size == 3
// == broken: a request that was given up says so
go(lost().i), lost().querySelector('.lost').textContent == 'given up after 1.5 s'
// == broken: a request that was given up is red
lost().classList.contains('wrong')
// == broken: a click opens a row
lost().querySelector('summary').click(), new Promise(done => setTimeout(done, 0, true))
// == broken: the message is indented
lost().querySelector('pre').textContent.startsWith('{\n')
// == broken: a kind can be chosen
[...$('kinds').children].find(one => one.textContent === 'unanswered').click(), true
// == broken: only rows of the chosen kind are shown
visible() == 2
// == broken: a click on the map goes to a row of the chosen kind
map.click(), visible() == 2
// == broken: a search may find nothing
$('search').value = 'is in no message', $('search').oninput(), true
// == broken: the page says how many rows the search has found
words('shown').startsWith('0 of')
// == broken: without visible rows, a click on the map shows all rows again
map.click(), words('shown').startsWith('25 of')
// == broken: another session changes the title
pick(1), document.title.startsWith('library 2.1, 20')
// == broken: input_required looks different from success
colour('input_required') != colour('result')
// == broken: a call that was never retried is a fault
words('faults').includes('never retried')
// == broken: a session without faults shows none
pick(0), words('faults') == '' && E.length == 5
