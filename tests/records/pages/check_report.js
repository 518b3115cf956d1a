// The checks of a report's curves.
async function checkCurves() {
  const chart = document.querySelector('.chart'), svg = () => chart.querySelector('svg');
  const firstStep = () => [...svg().querySelectorAll('text')].map(node => node.textContent).join(' ');
  const middle = svg().clientWidth / 2, paths = () => svg().querySelectorAll('path').length;
  svg().scrollIntoView();
  pointer(svg(), 'pointermove', middle, 60);
  check(tip.style.display === 'block' && /step [\d,]+: [\d.]+/.test(tip.textContent), 'the tip over a curve is "' + tip.textContent + '"');
  for (const value of document.querySelectorAll('.chart .value')) check(/^step [\d,]+: /.test(value.textContent), 'no value at the pointer: ' + value.textContent);
  pointer(svg(), 'pointerleave', 0, 0);
  for (const one of document.querySelectorAll('.chart svg')) {
    const labels = [...one.querySelectorAll('text[text-anchor=end]')].filter(label => +label.getAttribute('x') < 60);
    const texts = labels.map(label => label.textContent), name = one.getAttribute('aria-label');
    check(new Set(texts).size === texts.length && texts.length > 1, 'the axis of ' + name + ' has the labels ' + texts);
    for (const label of labels) check(label.getBBox().x >= 0, 'a label of ' + name + ' is cut off: ' + label.textContent);
  }

  const slider = document.querySelector('input[type=range]'), rough = paths();
  slider.value = 0.9;
  slider.dispatchEvent(new Event('input'));
  check(paths() > rough, 'smoothing adds no curve');

  const linear = firstStep(), log = chart.querySelector('button');
  log.click();
  check(log.getAttribute('aria-pressed') === 'true' && firstStep() !== linear, 'the logarithmic axis is as the other');
  log.click();
  check(firstStep() === linear, 'the axis does not come back');

  pointer(svg(), 'pointerdown', middle, 60);
  pointer(svg(), 'pointermove', middle + 40, 60);
  pointer(svg(), 'pointerup', middle + 40, 60);
  check(firstStep() !== linear, 'dragging does not zoom');
  check(isShown(button('show all steps')), 'nothing shows all steps again');
  svg().dispatchEvent(new MouseEvent('dblclick', {bubbles: true}));
  check(firstStep() === linear, 'a double click does not show all steps');

  check(document.querySelectorAll('.evaluation-mark').length > 0, 'evaluations have no marks');
  for (const kind of ['takeover', 'resume']) check(chart.querySelectorAll('.' + kind + '-mark').length === 1, 'no mark of a ' + kind);
}
function checkCards() {
  const text = document.querySelector('.rerun').textContent;
  for (const wanted of ['pipetrain --pp 4', 'resumed after step', 'a note']) check(text.includes(wanted), 'the card has no "' + wanted + '"');
  const cell = document.querySelector('.loads rect');
  check(cell.getBoundingClientRect().width >= 8, 'an expert is ' + cell.getBoundingClientRect().width + ' pixels wide');
  pointer(cell, 'pointermove', 2, 2);
  check(/expert 0\n/.test(tip.textContent), 'the tip over an expert is "' + tip.textContent + '"');
}
verdict(async () => {
  await checkCurves();
  checkCards();
  await checkTimeline();
});
