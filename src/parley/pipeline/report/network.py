"""Who answers whom, as a drawing: agents are circles, answers are arrows from who answers to who asked.

Agents that answer each other often are drawn near each other: arrows pull, circles push apart, and all of it comes to
rest in a fixed number of steps from a fixed start, so the same answers always give the same picture.
"""

import math
from dataclasses import dataclass
from typing import Any, Final

from parley.pipeline.report import words
from parley.pipeline.report.markup import Markup, element

WIDTH, HEIGHT = 860.0, 560.0
MARGIN: Final = 74.0
STEPS: Final = 400
NODES_MAX: Final = 24
"""More circles than this are a cloud that tells nothing."""
RADIUS_MIN, RADIUS_MAX = 13.0, 34.0
STROKE_MIN, STROKE_MAX = 1.2, 9.0
BEND: Final = 0.16
"""How far an arrow bows out, as a share of its length, so that there and back are two arrows."""
COLOURS: Final = 8
"""Colours that the style sheet has for agents."""


@dataclass(slots=True)
class Node:
    """An agent in the drawing."""

    name: str
    messages: int
    x: float = 0.0
    y: float = 0.0
    radius: float = RADIUS_MIN


def draw_network(agents: list[dict[str, Any]], pairs: list[dict[str, Any]]) -> Markup:
    """The drawing of the agents that take part in the most answers."""
    nodes = _nodes(agents, pairs)
    names = {node.name for node in nodes}
    shown = [pair for pair in pairs if pair["asker"] in names and pair["answerer"] in names]
    place(nodes, shown)
    by_name = {node.name: node for node in nodes}
    index = {node.name: number for number, node in enumerate(nodes)}
    most = max((pair["answers"] for pair in shown), default=1)
    arrows = [_arrow(by_name, index, pair, most) for pair in reversed(shown)]
    circles = [_circle(number, node) for number, node in enumerate(nodes)]
    label = f"A network of {words.count(len(nodes), 'agent')} and {words.count(len(shown), 'arrow')} of answers"
    return element(
        "svg", [*arrows, *circles], viewBox=f"0 0 {WIDTH:.0f} {HEIGHT:.0f}", role="img", aria_label=label, class_="net"
    )


def _nodes(agents: list[dict[str, Any]], pairs: list[dict[str, Any]]) -> list[Node]:
    weight: dict[str, int] = {}
    for pair in pairs:
        for side in ("asker", "answerer"):
            weight[pair[side]] = weight.get(pair[side], 0) + pair["answers"]
    chosen = sorted(weight, key=lambda each: (-weight[each], each))[:NODES_MAX]
    messages = {agent["agent"]: agent["messages"] for agent in agents}
    most = max((messages.get(each, 0) for each in chosen), default=1) or 1
    nodes = [Node(each, messages.get(each, 0)) for each in chosen]
    for node in nodes:
        node.radius = RADIUS_MIN + (RADIUS_MAX - RADIUS_MIN) * math.sqrt(node.messages / most)
    return nodes


def place(nodes: list[Node], pairs: list[dict[str, Any]]) -> None:
    """Gives every circle its place, inside the drawing and apart from the others."""
    if not nodes:
        return
    for number, node in enumerate(nodes):
        angle = 2 * math.pi * number / len(nodes)
        node.x, node.y = math.cos(angle), math.sin(angle)
    index = {node.name: number for number, node in enumerate(nodes)}
    most = max((pair["answers"] for pair in pairs), default=1)
    springs = [
        (index[pair["asker"]], index[pair["answerer"]], 0.35 + math.sqrt(pair["answers"] / most)) for pair in pairs
    ]
    for step in range(STEPS):
        _step(nodes, springs, warmth=0.12 * (1 - step / STEPS))
    _fit(nodes)


def _step(nodes: list[Node], springs: list[tuple[int, int, float]], warmth: float) -> None:
    """One step of the springs and of what pushes apart; nobody moves further than ``warmth``."""
    rest = 1.6 / math.sqrt(len(nodes))
    forces = [[-0.06 * node.x, -0.06 * node.y] for node in nodes]
    for one, node in enumerate(nodes):
        for two in range(one):
            dx, dy = node.x - nodes[two].x, node.y - nodes[two].y
            push = rest * rest / max(dx * dx + dy * dy, 1e-6)
            _pull(forces, one, two, dx * push, dy * push)
    for one, two, strength in springs:
        dx, dy = nodes[one].x - nodes[two].x, nodes[one].y - nodes[two].y
        pull = -strength * math.hypot(dx, dy) / rest / 2
        _pull(forces, one, two, dx * pull, dy * pull)
    for node, (fx, fy) in zip(nodes, forces, strict=True):
        size = max(math.hypot(fx, fy), 1e-9)
        reach = min(size, warmth) / size
        node.x, node.y = node.x + fx * reach, node.y + fy * reach


def _pull(forces: list[list[float]], one: int, two: int, x: float, y: float) -> None:
    forces[one][0] += x
    forces[one][1] += y
    forces[two][0] -= x
    forces[two][1] -= y


def _fit(nodes: list[Node]) -> None:
    """Stretches the picture to the frame, then parts circles that still touch."""
    for axis, size in (("x", WIDTH), ("y", HEIGHT)):
        values = [getattr(node, axis) for node in nodes]
        low, extent = min(values), max(values) - min(values)
        for node, value in zip(nodes, values, strict=True):
            share = (value - low) / extent if extent > 1e-6 else 0.5
            setattr(node, axis, MARGIN + share * (size - 2 * MARGIN))
    for _ in range(60):
        for one, node in enumerate(nodes):
            for other in nodes[:one]:
                _part(node, other)
        for node in nodes:
            node.x = min(max(node.x, MARGIN), WIDTH - MARGIN)
            node.y = min(max(node.y, node.radius + 8), HEIGHT - node.radius - 26)


def _part(one: Node, two: Node) -> None:
    dx, dy = one.x - two.x, one.y - two.y
    apart = math.hypot(dx, dy) or 1.0
    lacking = one.radius + two.radius + 34 - apart
    if lacking > 0:
        x, y = (dx / apart, dy / apart) if dx or dy else (1.0, 0.0)
        one.x, one.y = one.x + x * lacking / 2, one.y + y * lacking / 2
        two.x, two.y = two.x - x * lacking / 2, two.y - y * lacking / 2


def _arrow(nodes: dict[str, Node], index: dict[str, int], pair: dict[str, Any], most: int) -> Markup:
    source, target = nodes[pair["answerer"]], nodes[pair["asker"]]
    width = STROKE_MIN + (STROKE_MAX - STROKE_MIN) * math.sqrt(pair["answers"] / most)
    head = 6 + 1.6 * width
    dx, dy = target.x - source.x, target.y - source.y
    length = math.hypot(dx, dy) or 1.0
    mx = (source.x + target.x) / 2 - dy * BEND
    my = (source.y + target.y) / 2 + dx * BEND
    sx, sy = _towards(source.x, source.y, mx, my, source.radius + 2)
    tip_x, tip_y = _towards(target.x, target.y, mx, my, target.radius + 3)
    end_x, end_y = _towards(target.x, target.y, mx, my, min(target.radius + 3 + head, length / 2))
    back = math.hypot(tip_x - end_x, tip_y - end_y) or 1.0
    nx, ny = (tip_y - end_y) / back * head * 0.55, (end_x - tip_x) / back * head * 0.55
    told = (
        f"{words.name(pair['answerer'])} answered {words.name(pair['asker'])}"
        f" {words.count(pair['answers'], 'time')}, median {words.duration(pair['p50_ms'])}"
    )
    colour = index[pair["answerer"]] % COLOURS
    parts = [
        element("title", told),
        element("path", d=f"M{sx:.1f} {sy:.1f}Q{mx:.1f} {my:.1f} {end_x:.1f} {end_y:.1f}", stroke_width=f"{width:.1f}"),
        element(
            "polygon",
            points=f"{tip_x:.1f},{tip_y:.1f} {end_x + nx:.1f},{end_y + ny:.1f} {end_x - nx:.1f},{end_y - ny:.1f}",
        ),
    ]
    return element(
        "g",
        parts,
        class_=f"arrow agent-{colour}",
        data_from=str(index[pair["answerer"]]),
        data_to=str(index[pair["asker"]]),
    )


def _towards(x: float, y: float, to_x: float, to_y: float, distance: float) -> tuple[float, float]:
    length = math.hypot(to_x - x, to_y - y) or 1.0
    return x + (to_x - x) / length * distance, y + (to_y - y) / length * distance


def _circle(number: int, node: Node) -> Markup:
    shown = words.name(node.name)
    short = shown if len(shown) <= 18 else shown[:17] + "…"
    at = {"x": f"{node.x:.1f}", "y": f"{node.y + node.radius + 16:.1f}"}
    return element(
        "g",
        [
            element("title", f"{shown}: {words.count(node.messages, 'message')}"),
            element("circle", cx=f"{node.x:.1f}", cy=f"{node.y:.1f}", r=f"{node.radius:.1f}"),
            element("text", short, text_anchor="middle", **at),
        ],
        class_=f"node agent-{number % COLOURS}",
        data_node=str(number),
    )
