// Puts the page of a run together; that of several is in comparison.js.
document.title = data.title + ' \u2013 pipetrain';
const pill = make('span', {class: 'pill ' + data.state}, data.state), state_text = make('span', {class: 'soft'}, data.state_text);
const now = data.newest;

// A run that was killed cannot say so: by the clock of whoever looks, its page has become old.
function tellAge() {
  const age = Date.now() / 1000 - data.written;
  if (data.state !== 'running' || age < Math.max(60, now ? 5 * now.seconds : 0)) return;
  const minutes = Math.floor(age / 60), hours = Math.floor(minutes / 60);
  pill.className = 'pill stopped';
  pill.textContent = 'no news for ' + (hours >= 48 ? Math.floor(hours / 24) + ' days' : hours >= 2 ? hours + ' h' : minutes + ' min');
  state_text.textContent = 'the run was still going on when this page was written; it may have been killed';
}
// Loads the page again while the run goes on, but not while somebody holds the pointer.
function reloadLater() {
  let held = false;
  addEventListener('pointerdown', () => held = true);
  addEventListener('pointerup', () => held = false);
  setInterval(() => held || location.reload(), 10000);
}
function addCurves() {
  if (data.charts.length === 0) return;
  const evaluation = data.charts.find(chart => chart.title === 'evaluation loss');
  main.append(new Curves(data.charts, {runs: data.runs, marks: data.marks, evaluations: evaluation && data.runs.length < 2 ? evaluation.lines[0].points : []}).node);
}
function addRun() {
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
  if (data.state === 'running') {
    setInterval(tellAge, 5000);
    reloadLater();
  }
}
data.compared ? addComparison() : addRun();
