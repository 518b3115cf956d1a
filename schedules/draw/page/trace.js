// The page of one timeline: a simulated step, or the steps of a real run.
document.title = data.title + ' \u2013 pipetrain';
const unit = data.unit, summary_heads = ['busy', 'idle', 'warm-up', 'steady', 'cool-down', 'communication', 'most microbatches held'];

function summaryWords() {
  const words = ['makespan ' + duration(data.makespan, unit), 'bubble ' + (100 * data.bubble).toFixed(1) + ' %',
    'longest wait inside a stage ' + duration(data.span_bubble, unit)];
  if (data.evaluations.length) {
    const spent = data.evaluations.reduce((sum, [, start, end]) => sum + end - start, 0);
    words.push(data.evaluations.length + (data.evaluations.length > 1 ? ' evaluations' : ' evaluation') + ' of ' + duration(spent, unit) + ' not counted as idle');
  }
  return words.join(', ');
}
function summaryTable() {
  const line = (tag, cells) => make('tr', {}, ...cells.map(cell => make(tag, {}, cell)));
  const cells = figures => figures.map((x, i) => i === figures.length - 1 ? short(x) : duration(x, unit));
  return make('div', {class: 'wide'}, make('table', {class: 'numbers'}, line('th', ['', ...summary_heads]),
    ...data.summary.map((figures, i) => line('td', [data.names[i], ...cells(figures)]))));
}
main.append(make('h1', {}, data.title), make('p', {class: 'soft'}, summaryWords()));
if (data.length > 0) {
  const view = new TimelineView([{...data, title: ''}], {wheel: true});
  main.append(make('section', {class: 'card'}, view.node), card('Where the time goes', summaryTable()));
}
