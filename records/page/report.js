// Puts the page of a run together; that of several is in comparison.js.
document.title = data.title + ' \u2013 pipetrain';
let pill, state_text;

// A run that was killed cannot say so: by the clock of whoever looks, its page has become old.
function tellAge() {
  const age = Date.now() / 1000 - data.written, now = data.newest;
  if (data.state !== 'running' || age < Math.max(60, now ? 5 * now.seconds : 0)) return;
  const minutes = Math.floor(age / 60), hours = Math.floor(minutes / 60);
  pill.className = 'pill stopped';
  pill.textContent = 'no news for ' + (hours >= 48 ? Math.floor(hours / 24) + ' days' : hours >= 2 ? hours + ' h' : minutes + ' min');
  state_text.textContent = 'the run was still going on when this page was written; it may have been killed';
}
const pause = milliseconds => new Promise(done => setTimeout(done, milliseconds));
let held = false;  // somebody holds the pointer, so that nothing may move
addEventListener('pointerdown', () => held = true);
for (const end of ['pointerup', 'pointercancel']) addEventListener(end, () => held = false);

// Draws everything anew; the place to which the page was scrolled, and the button with the focus, remain.
function redraw() {
  const at = scrollY, focus = document.activeElement?.getAttribute('aria-label');
  main.style.minHeight = main.offsetHeight + 'px';
  lifetime.abort();
  lifetime = new AbortController();
  hide();
  main.replaceChildren();
  addRun();
  scrollTo(scrollX, at);
  if (focus) [...main.querySelectorAll('[aria-label]')].find(node => node.getAttribute('aria-label') === focus)?.focus({preventScroll: true});
  setTimeout(() => main.style.minHeight = '', 500);
}
// Gets the data of the running program whenever it has new ones.
async function follow() {
  await pause(1000);  // the page has just come with the newest
  for (let number = '0', failures = 0; data.state === 'running';) {
    try {
      const answer = await fetch('data' + location.search + '&after=' + number);
      if (!answer.ok) throw new Error(answer.status);
      failures = 0;
      if (answer.status === 204) continue;
      const newest = await answer.json();
      number = answer.headers.get('Data-Number');
      while (held) await pause(100);
      Object.assign(data, newest);
      redraw();
    } catch {
      if (++failures > 2) tellSilence();
      await pause(1000);
    }
  }
}
function tellSilence() {
  pill.className = 'pill stopped';
  pill.textContent = 'no answer';
  state_text.textContent = 'the program has ended without telling how, or cannot be reached';
}
// Loads a file's page again while the run goes on.
const reloadLater = () => setInterval(() => held || location.reload(), 10000);
function addCurves() {
  if (data.charts.length === 0) return;
  const evaluation = data.charts.find(chart => chart.title === 'evaluation loss');
  main.append(new Curves(data.charts, {runs: data.runs, marks: data.marks, evaluations: evaluation && data.runs.length < 2 ? evaluation.lines[0].points : []}).node);
}
function addRun() {
  const now = data.newest;
  pill = make('span', {class: 'pill ' + data.state}, data.state);
  state_text = make('span', {class: 'soft'}, data.state_text);
  main.append(make('header', {}, make('h1', {}, data.title), pill, state_text));
  tellAge();
  main.append(now ? factCards(now) : card('No step is done yet'));
  addCurves();
  if (data.expert_loads && data.expert_loads.layers.length) main.append(loadsCard(data.expert_loads));
  if (data.timelines.length) main.append(timelinesCard(data.timelines));
  if (data.rerun) main.append(rerunCard(data.rerun));
  const lower = make('div', {class: 'grid lower'});
  if (data.devices.length) lower.append(memoryCard(data.devices));
  if (now && now.stage_bubble.length > 1) lower.append(idleCard(now));
  lower.append(card('Host', pairs(data.host)));
  main.append(lower, card('Settings', make('div', {class: 'columns'}, pairs(data.settings))));
}
if (data.compared) {
  addComparison();
} else {
  addRun();
  if (data.state === 'running') {
    setInterval(tellAge, 5000);
    data.live ? follow() : reloadLater();
  }
}
