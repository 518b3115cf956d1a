// Puts the page of several runs together: their curves over each other, and their figures side by side.
function figuresCard() {
  const line = (tag, cells) => make('tr', {}, ...cells.map(cell => make(tag, {}, cell)));
  const table = make('table', {class: 'numbers'}, line('th', ['', ...data.runs]), ...data.figures.map(row => line('td', row)));
  return card('Figures', make('div', {class: 'wide'}, table));
}
function addComparison() {
  main.append(make('header', {}, make('h1', {}, data.title)));
  addCurves();
  main.append(figuresCard(), card('Differences', make('ul', {class: 'notes'}, ...data.findings.map(line => make('li', {}, line)))));
}
