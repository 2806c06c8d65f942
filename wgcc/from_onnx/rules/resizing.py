"""Resizing and sampling at other positions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wgcc.from_onnx.context import OnnxOp
from wgcc.from_onnx.problems import CannotImport
from wgcc.from_onnx.rules.rule import Rule, at_axis, axis_of, per_axis
from wgcc.from_onnx.values import Computed, Operand, channels_last_order
from wgcc.lazy_numpy import Array, np

# What `resize` of the language computes: mode, how places are found, and how they are rounded.
OWN_MODES = {
    ("nearest", "asymmetric", "floor"): ("nearest", None),
    ("linear", "half_pixel", ""): ("bilinear", None),
    ("linear", "align_corners", ""): ("bilinear", True),
    ("cubic", "half_pixel", ""): ("bicubic", None),
    ("cubic", "align_corners", ""): ("bicubic", True),
}


def resize(op: OnnxOp) -> Operand:
    x = op.operand(0)
    rank, shape = len(x.shape), op.type.shape
    named = [axis_of(item, rank) for item in op.attribute("axes", range(rank))]
    changed = [axis for axis in range(rank) if axis in named and _is_changed(op, x, axis)]
    _check_crop(op)
    own = _own_mode(op)
    if own and 3 <= rank <= 5 and set(changed) <= set(range(2, rank)) and _is_exact(op, x):
        text, size = "resize({0}, {1}, {2}, align_corners = {3})", per_axis(shape[2:])
        return op.result(text, op.channels_last(0), size, *own, order=channels_last_order(rank))
    for axis in changed:
        x = along_axis(op, x, _matrix(op, x, axis), axis)
    return x


def _check_crop(op: OnnxOp) -> None:
    if op.attribute("coordinate_transformation_mode", "") != "tf_crop_and_resize":
        return
    region = op.constant(1, "region")
    if region.min() < 0 or region.max() > 1:
        raise CannotImport("its region reaches beyond the image")


def _is_changed(op: OnnxOp, x: Operand, axis: int) -> bool:
    is_cropped = op.attribute("coordinate_transformation_mode", "") == "tf_crop_and_resize"
    return x.shape[axis] != op.type.shape[axis] or is_cropped


def _own_mode(op: OnnxOp) -> tuple[str, bool | None] | None:
    mode = op.attribute("mode", "nearest")
    # Before opset 11 there was one way, and no word for it.
    usual = ("half_pixel", "round_prefer_floor") if op.opset >= 11 else ("asymmetric", "floor")
    places = op.attribute("coordinate_transformation_mode", usual[0])
    rounding = op.attribute("nearest_mode", usual[1]) if mode == "nearest" else ""
    if op.attribute("antialias", 0) or op.attribute("exclude_outside", 0):
        return None
    if mode == "cubic" and abs(float(op.attribute("cubic_coeff_a", -0.75)) + 0.75) > 1e-9:
        return None
    return OWN_MODES.get((mode, places, rounding))


def _is_exact(op: OnnxOp, x: Operand) -> bool:
    """Whether scales are those that the sizes say."""
    scales = _scales(op)
    if scales is None:
        return str(op.attribute("keep_aspect_ratio_policy", "stretch")) == "stretch"
    wanted = [after / before for before, after in zip(x.shape, op.type.shape, strict=True)]
    return len(scales) == len(wanted) and bool(np.allclose(scales, wanted, rtol=1e-6))


def _scales(op: OnnxOp) -> list[float] | None:
    place = 2 if op.opset >= 11 else 1
    if op.kind == "Upsample" and "scales" in op.attributes:
        return [float(item) for item in op.attributes["scales"]]
    if not op.has(place) or op.operand(place).shape == (0,):
        return None
    return [float(item) for item in op.constant(place, "scales")]


def _matrix(op: OnnxOp, x: Operand, axis: int) -> Array:
    """[before, after]: how the elements along an axis become others."""
    size = x.shape[axis]
    given: dict[str, Array] = {"x": np.eye(size, dtype=np.float32)}
    names = ["x", "", "", ""]
    axes = list(op.attribute("axes", range(len(x.shape))))
    axes = [axis_of(item, len(x.shape)) for item in axes]
    scales = _scales(op)
    if scales is not None:
        given["scales"] = np.array([1.0, scales[axes.index(axis)]], np.float32)
        names[2] = "scales"
    else:
        given["sizes"] = np.array([size, op.type.shape[axis]], np.int64)
        names[3] = "sizes"
        if op.attribute("keep_aspect_ratio_policy", "stretch") != "stretch":
            names[2:4] = ["scales", ""]
            given = {
                "x": given["x"],
                "scales": np.array([1.0, _kept_ratio(op, x, axes)], np.float32),
            }
    if op.has(1) and op.opset >= 11 and op.operand(1).shape != (0,):
        roi = op.constant(1, "region").reshape(2, -1)[:, axes.index(axis)]
        given["roi"] = np.array([0.0, roi[0], 1.0, roi[1]], np.float32)
        names[1] = "roi"
    matrix = _resize_columns(op, given, names)
    if matrix.shape[1] != op.type.shape[axis]:
        raise CannotImport("its sizes do not follow from its scales")
    return matrix


def _resize_columns(op: OnnxOp, given: Mapping[str, Array], names: Sequence[str]) -> Array:
    """Resizes columns by ONNX's reference, with the node's own settings."""
    from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor_value_info
    from onnx.reference import ReferenceEvaluator

    skipped = ("axes", "keep_aspect_ratio_policy", "scales")
    attributes = {name: item for name, item in op.attributes.items() if name not in skipped}
    if op.opset < 11:
        attributes |= {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    node = make_node("Resize", names, ["y"], **attributes)
    ports = [make_tensor_value_info(name, 0, None) for name in given]
    graph = make_graph([node], "resize", ports, [make_tensor_value_info("y", 0, None)])
    model = make_model(graph, opset_imports=[make_opsetid("", 19)])
    columns: Array = np.asarray(ReferenceEvaluator(model).run(None, dict(given))[0])
    return columns


def _kept_ratio(op: OnnxOp, x: Operand, axes: list[int]) -> float:
    sizes = op.numbers(3, "sizes")
    ratios = [size / x.shape[axis] for size, axis in zip(sizes, axes, strict=True)]
    policy = op.attribute("keep_aspect_ratio_policy")
    return min(ratios) if policy == "not_larger" else max(ratios)


def along_axis(op: OnnxOp, x: Operand, matrix: Array, axis: int) -> Computed:
    """A linear map of the elements along one axis; picking elements is a lookup."""
    order = x.order
    place = order.index(axis)
    if ((matrix == 0) | (matrix == 1)).all() and (matrix.sum(0) == 1).all():
        ids = op.parameter_of(matrix.argmax(0), "places")
        items = at_axis(place, ids)
        return op.index(op.tensor(x), items, order=order)
    letters = "abcdefgh"[: len(order)]
    after = letters[:place] + "z" + letters[place + 1 :]
    pattern = f"{' '.join(letters)}, {letters[place]} z -> {' '.join(after)}"
    weights = op.parameter_of(matrix.astype(np.float32), "weights")
    return op.emit("einsum({0}, {1}, {2})", pattern, op.tensor(x), weights, order=order)


def grid_sample(op: OnnxOp) -> Operand:
    x, grid = op.channels_last(0), op.plain(1)
    if len(x.shape) != 4:
        raise CannotImport("it samples volumes; the language samples images")
    mode = {"linear": "bilinear"}.get(
        op.attribute("mode", "linear"), op.attribute("mode", "linear")
    )
    if mode in ("cubic", "bicubic"):
        raise CannotImport("its mode is cubic; the language has bilinear and nearest")
    padding = op.attribute("padding_mode", "zeros")
    is_aligned = bool(op.attribute("align_corners", 0))
    text = "grid_sample({0}, {1}, {2}, {3}, align_corners = {4})"
    return op.result(text, x, grid, mode, padding, is_aligned or None, order=(0, 2, 3, 1))


def affine_grid(op: OnnxOp) -> Operand:
    """Positions of an image, moved by a matrix for each sample."""
    theta, sizes = op.plain(0), op.numbers(1, "size")
    spatial = sizes[2:]
    align = bool(op.attribute("align_corners", 0))
    axes = [_positions(size, align) for size in spatial]
    grid = np.stack(np.meshgrid(*axes, indexing="ij")[::-1], -1).reshape(-1, len(spatial))
    base = np.concatenate([grid, np.ones((len(grid), 1))], 1).astype(np.float32)
    text = '{0} @ rearrange({1}, "n i j -> n j i")'
    table = op.parameter_of(base, "grid")
    flat = op.emit(text, table, theta)
    return op.reshape(flat, op.type.shape)


def _positions(size: int, align: bool) -> Array:
    if align:
        return np.linspace(-1, 1, size) if size > 1 else np.array([-1.0])
    return (2 * np.arange(size) + 1) / size - 1


RULES: dict[str, Rule] = {
    "Resize": resize,
    "Upsample": resize,
    "GridSample": grid_sample,
    "AffineGrid": affine_grid,
}
