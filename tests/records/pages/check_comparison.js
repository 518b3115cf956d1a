// The checks of a page of several runs.
verdict(async () => {
  const chart = document.querySelector('.chart'), svg = () => chart.querySelector('svg');
  const texts = () => [...svg().querySelectorAll('text')].map(node => node.textContent).join(' '), middle = svg().clientWidth / 2;
  const colors = new Set([...svg().querySelectorAll('path')].map(path => getComputedStyle(path).stroke).filter(color => color !== 'none'));
  check(colors.size === 3, 'three runs have ' + colors.size + ' colours');
  check(document.querySelectorAll('.curve-tools .legend span').length === 3, 'the legend has not three runs');
  svg().scrollIntoView();
  pointer(svg(), 'pointermove', middle, 60);
  for (const name of ['run-a.jsonl', 'c, step ']) check(tip.textContent.includes(name), 'the tip over a curve is "' + tip.textContent + '"');
  pointer(svg(), 'pointerleave', 0, 0);
  const all = texts();
  pointer(svg(), 'pointerdown', middle, 60);
  pointer(svg(), 'pointermove', middle + 40, 60);
  pointer(svg(), 'pointerup', middle + 40, 60);
  check(texts() !== all, 'dragging does not zoom');
  button('show all steps').click();
  check(texts() === all, 'the button does not show all steps');
  const rows = [...document.querySelectorAll('table.numbers tr')].map(row => row.children.length);
  check(rows.length === 4 && rows.every(cells => cells === 4), 'the figures have the rows ' + rows);
  check(document.querySelectorAll('.notes li').length === 2, 'the differences are not told');
});
