"""A module's backward in two halves, I and W, by PyTorch's autograd.

I runs the nodes of the graph that lie between the outputs and the inputs, and keeps the gradients that arrive at those nodes
from which parameters hang. W then runs each of these nodes again for its parameters alone: a matrix product's weight gradient,
not its input's. The idea is that of Qi et al. 2023, "Zero Bubble Pipeline Parallelism".
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import GradientEdge, Node, get_gradient_edge

from .gradients import add_gradients


class _Graph:
    """Finds the nodes on paths from the outputs to the inputs, and the parameters that each of them reaches by other paths."""

    def __init__(self, roots: Sequence[Node], inputs: Sequence[Tensor], parameters: Sequence[Tensor]):
        self._inputs = {get_gradient_edge(one).node for one in inputs}
        self._leaves = {get_gradient_edge(one).node: index for index, one in enumerate(parameters)}
        self._on_way: dict[Node, bool] = {}
        self._hanging: dict[Node, frozenset[int]] = {}  # by node off these paths: its parameters
        self.branches: list[tuple[Node, frozenset[int]]] = []
        for root in roots:
            self._visit(root)

    def _visit(self, root: Node) -> None:
        stack = [(root, False)]
        while stack:
            node, children_done = stack.pop()
            if node in self._on_way:
                continue
            if children_done:
                self._judge(node)
            else:
                stack.append((node, True))
                stack += [(child, False) for child, _ in node.next_functions if child is not None]

    def _judge(self, node: Node) -> None:
        children = [child for child, _ in node.next_functions if child is not None]
        self._on_way[node] = node in self._inputs or any(self._on_way[child] for child in children)
        own = frozenset([self._leaves[node]]) if node in self._leaves else frozenset()
        hanging = own.union(*(self._hanging[child] for child in children if not self._on_way[child]))
        self._hanging[node] = hanging
        if self._on_way[node] and hanging:
            self.branches.append((node, hanging))

    def on_way(self, node: Node) -> bool:
        return self._on_way[node]

    def hanging(self, node: Node) -> frozenset[int]:
        return self._hanging[node]


class SplitBackward:
    """The backward of one forward. Call input_grad() and then weight_grad(), once each, on one thread at a time.

    outputs, inputs: tensors that require gradients; inputs are leaves. Parameters that are used in several places, or by a
    function whose backward is one piece (torch.compile, autograd.Function), get their gradients in input_grad() already, because
    running such a node twice would cost more than W saves. left: parameters whose gradients their modules add themselves when the
    backward comes by (SplitLinear); with them input_grad() gives all other gradients too, which are small, but those of parameters
    that the inputs do not lead to.
    """

    def __init__(
        self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], parameters: Sequence[Tensor], left: Sequence[Tensor] = ()
    ):
        self._outputs, self._inputs = list(outputs), list(inputs)
        self._parameters = [*(one for one in parameters if one.requires_grad), *left]
        self._left = frozenset(range(len(self._parameters) - len(left), len(self._parameters)))
        self._edges = [get_gradient_edge(one) for one in self._outputs]
        graph = _Graph([edge.node for edge in self._edges], self._inputs, self._parameters)
        self._late_roots = [i for i, edge in enumerate(self._edges) if not graph.on_way(edge.node)]
        groups = [indices for _, indices in graph.branches]
        if self._late_roots:
            groups.append(frozenset().union(*(graph.hanging(self._edges[i].node) for i in self._late_roots)))
        uses = [sum(index in group for group in groups) for index in range(len(self._parameters))]
        whole = {index for node, group in graph.branches if isinstance(node, BackwardCFunction) for index in group}
        late = groups[-1] if self._late_roots else frozenset()
        early = {index for index, count in enumerate(uses) if count > 1} | whole
        if left:
            early = set(range(len(self._parameters))) - late
        self._early = sorted(early)
        self._branches = [(node, sorted(group - early)) for node, group in graph.branches if group - early]
        self._late = sorted(late - early)
        self._arrived: dict[int, tuple[Tensor | None, ...]] = {}
        self._root_gradients: list[Tensor | None] = []

    def input_grad(self, gradients: Sequence[Tensor | None]) -> list[Tensor | None]:
        """Returns the gradients of the inputs, given those of the outputs (None: ones, for a scalar)."""
        self._root_gradients = [
            torch.ones_like(out) if gradient is None else gradient for out, gradient in zip(self._outputs, gradients)
        ]
        wanted = [*self._inputs, *(self._parameters[index] for index in self._early)]
        if not wanted or len(self._late_roots) == len(self._outputs) and not self._early:
            return [None] * len(self._inputs)
        hooks = [node.register_prehook(self._keep(number)) for number, (node, _) in enumerate(self._branches)]
        try:
            found = torch.autograd.grad(
                self._outputs,
                wanted,
                self._root_gradients,
                retain_graph=bool(self._branches or self._late),
                allow_unused=True,
            )
        finally:
            for hook in hooks:
                hook.remove()
        self._add(self._early, found[len(self._inputs) :])
        return list(found[: len(self._inputs)])

    def weight_grad(self) -> None:
        """Adds the remaining gradients to the parameters' `.grad`."""
        for number, (node, indices) in enumerate(self._branches):
            arrived = [(i, one) for i, one in enumerate(self._arrived.pop(number, ())) if one is not None]
            if arrived:
                edges = [GradientEdge(node, i) for i, _ in arrived]
                self._differentiate(edges, [one for _, one in arrived], indices)
        if self._late:
            self._differentiate(
                [self._outputs[i] for i in self._late_roots], [self._root_gradients[i] for i in self._late_roots], self._late
            )
        self._branches, self._outputs, self._root_gradients = [], [], []

    def _keep(self, number: int):
        def hook(gradients: tuple[Tensor | None, ...]) -> None:
            self._arrived[number] = gradients

        return hook

    def _differentiate(self, outputs: list, gradients: list, indices: list[int]) -> None:
        parameters = [self._parameters[index] for index in indices]
        self._add(indices, torch.autograd.grad(outputs, parameters, gradients, allow_unused=True))

    def _add(self, indices: Sequence[int], gradients: Sequence[Tensor | None]) -> None:
        found = [(self._parameters[index], one) for index, one in zip(indices, gradients) if index not in self._left]
        add_gradients([parameter for parameter, _ in found], [one for _, one in found])
