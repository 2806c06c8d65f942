"""All checks, in the order in which a reader might ask."""

from __future__ import annotations

from collections.abc import Iterator

from lint import architecture, javascript, named_files, repository, scheduled_ops, suite, words
from lint.tree import Problem, Tree

CHECKS = (
    architecture.imports_point_down,
    architecture.imports_point_down_inside_parts,
    architecture.few_modules_name_a_back_end,
    architecture.no_list_of_ops_outside_the_ops,
    scheduled_ops.the_scheduler_names_few_ops,
    architecture.third_party_packages_are_imported_in_one_place,
    architecture.runtime_stands_alone,
    architecture.sizes,
    architecture.modules_say_what_they_own,
    architecture.every_function_is_used,
    javascript.sizes,
    javascript.modules_say_what_they_own,
    javascript.written_for_readers,
    javascript.all_is_linted,
    javascript.imports_point_down,
    named_files.files_that_are_named_exist,
    repository.added_state_has_one_place,
    repository.nothing_of_one_machine,
    repository.only_known_names_at_the_top,
    suite.names_differ_by_more_than_a_letter,
    suite.shared_code_is_in_support,
    words.element_types_are_asked_of_the_table,
    words.variables_say_what_they_are,
    words.functions_are_verbs_or_nouns,
    words.docstrings_are_sentences,
    words.class_names_mean_one_thing,
)


def problems(tree: Tree) -> Iterator[Problem]:
    for check in CHECKS:
        yield from check(tree)
