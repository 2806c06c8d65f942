"""Classes that a model knows, by name: data never gets the id of another class.

A name that the model knows gets its id. A new name gets an id that has no name yet, if the model
is trained with the data; else it is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from wgcc_runtime.data.form import ModelForm, Port, form_of
from wgcc_runtime.data.preparation import Preparation, is_only_names
from wgcc_runtime.data.source import BLANKS, Source


@dataclass(frozen=True, slots=True)
class Refusal:
    """`names` get no id; the problem with one of them."""

    names: set[str]
    problem: str
    values: dict[str, Any]


@dataclass(frozen=True, slots=True)
class KnownClasses:
    """Names by id. `most`: how many there can be; None: any number."""

    names: Sequence[str]
    most: int | None
    is_training: bool

    @property
    def free(self) -> float:
        """How many new names get an id: only training teaches them."""
        most = inf if self.most is None else self.most
        return max(most - len(self.names), 0) if self.is_training else 0

    def refusal(self, new: Sequence[str]) -> Refusal | None:
        """Why new names get no ids; None: all get one."""
        alike = {_fold(name): name for name in self.names}
        for name in new:
            if near := alike.get(_fold(name)):
                return Refusal({name}, "class-spelling", {"known": near})
        if len(new) <= self.free:
            return None
        several = list(new) if len(new) > 1 else []
        values = {"known": list(self.names), "free": self.free, "new": several}
        return Refusal(set(new), "class-unknown", {**values, "training": self.is_training})

    def with_new(self, new: Sequence[str], source: Source) -> list[str]:
        """All names by id, new ones after those that are known."""
        first = len(self.names)
        if new and first:
            ids = [f"`{name}` is {first + number}" for number, name in enumerate(new)]
            source.note("new-classes", count=len(new), ids=ids)
        return [*self.names, *new]


def known_in(names: Sequence[str], port: Port, is_training: bool) -> KnownClasses:
    """The classes of an input that are known before its data is read."""
    most = port.row_size if port.is_float else port.class_count
    return KnownClasses(names, most, is_training)


def classes_of(
    form: ModelForm, preparation: Preparation | None, has_learned: bool
) -> dict[str, list[str]]:
    """The names of the classes that a model knows, by input and id.

    A model that has learned classes without names knows them by their numbers. One that has learned
    nothing is bound by names alone that it was built with, not by data that it may be trained with.
    """
    if preparation is not None:
        is_bound = has_learned or is_only_names(preparation)
        return _stored_names(preparation) if is_bound else {}
    if not has_learned:
        return {}
    trained = [entry for entry in form.entries.values() if entry.training]
    ports = [entry.inputs[name] for entry in trained for name in entry.rows]
    return {
        port.name: _number_names(port) for port in ports if port.takes_classes and port.class_count
    }


def known_form(model: Any, preparation: Preparation | None, has_learned: bool) -> ModelForm:
    """The form of a model, or of its plan, with the classes that it knows."""
    form = form_of(model)
    return replace(form, classes=classes_of(form, preparation, has_learned))


def names_alone(preparation: Preparation | None) -> Preparation | None:
    """Keeps only the class names of a preparation: the model is trained with arrays as they are."""
    names = _stored_names(preparation) if preparation else {}
    if not preparation or not names:
        return None
    kinds = preparation["inputs"]
    inputs = {name: {"kind": kinds[name]["kind"], "classes": names[name]} for name in names}
    return {**preparation, "inputs": inputs}


def with_classes(preparation: Preparation, specs: Mapping[str, Any]) -> Preparation:
    """The preparation with the classes that were read."""
    inputs = dict(preparation["inputs"])
    for name, spec in specs.items():
        if "classes" in spec and name in inputs:
            inputs[name] = {**inputs[name], "classes": list(spec["classes"])}
    return {**preparation, "inputs": inputs}


def is_alike(name: str, names: Iterable[str]) -> bool:
    """Whether it is one of the names, but for case and blanks."""
    return _fold(name) in {_fold(other) for other in names}


def new_names(names: Iterable[str], known: Sequence[str]) -> list[str]:
    there = set(known)
    return [name for name in names if name not in there]


def _stored_names(preparation: Preparation) -> dict[str, list[str]]:
    return {
        name: list(spec["classes"])
        for name, spec in preparation["inputs"].items()
        if "classes" in spec
    }


def _number_names(port: Port) -> list[str]:
    if port.dtype == "bool":
        return ["false", "true"]
    return [str(number) for number in range(port.class_count or 0)]


def _fold(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter not in BLANKS)
