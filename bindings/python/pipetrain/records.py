"""Results as tables, in terminals and notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape


def _text(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)


class Table(Sequence):
    """Records in rows, by the columns' names. `table[0]["loss"]`, `table["loss"]`, iteration over rows as dicts."""

    def __init__(self, rows: Sequence[dict], columns: Sequence[str] | None = None, title: str = ""):
        self._rows = list(rows)
        self.columns = list(columns) if columns is not None else list(self._rows[0]) if self._rows else []
        self.title = title

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, key):
        """A row by number, rows by slice, or a column's values by name."""
        if isinstance(key, str):
            return [row[key] for row in self._rows]
        if isinstance(key, slice):
            return type(self)(self._rows[key], self.columns, self.title)
        return self._rows[key]

    def _cells(self) -> list[list[str]]:
        return [[_text(row.get(name)) for name in self.columns] for row in self._rows]

    def __repr__(self) -> str:
        shown = self._cells()
        if len(shown) > 40:
            shown = [*shown[:20], ["..."] * len(self.columns), *shown[-20:]]
        lines = [self.columns, *shown]
        widths = [max((len(line[i]) for line in lines), default=0) for i in range(len(self.columns))]
        text = ["  ".join(cell.rjust(width) for cell, width in zip(line, widths)) for line in lines]
        return "\n".join([self.title, *text] if self.title else text)

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in self._cells())
        caption = f"<caption>{escape(self.title)}</caption>" if self.title else ""
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def curve_svg(values: Sequence[float], label: str, width: int = 640, height: int = 240) -> str:
    """One line over the steps, as an SVG picture."""
    finite = [value for value in values if value == value and abs(value) != float("inf")]
    low, high = (min(finite), max(finite)) if finite else (0.0, 1.0)
    span = (high - low) or 1.0
    left, bottom = 60, 24
    points = " ".join(
        f"{left + (width - left - 8) * i / max(len(values) - 1, 1):.1f},"
        f"{8 + (height - bottom - 8) * (high - value) / span:.1f}"
        for i, value in enumerate(values)
        if value in finite
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="11">'
        f'<rect width="{width}" height="{height}" fill="white"/>'
        f'<text x="4" y="16">{_text(float(high))}</text><text x="4" y="{height - bottom}">{_text(float(low))}</text>'
        f'<text x="{left}" y="{height - 6}">{escape(label)}, {len(values)} steps</text>'
        f'<polyline points="{points}" fill="none" stroke="#1f6feb" stroke-width="1.5"/></svg>'
    )
