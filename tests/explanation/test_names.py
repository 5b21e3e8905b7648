"""Readable names of functions."""

from __future__ import annotations

import pytest

from mlgo_gym.explanation.names import readable, readable_context, short_context, shortened


def test_a_mangled_symbol_is_demangled() -> None:
    assert (
        readable("_ZNSt6vectorIiSaIiEE9push_backERKi")
        == "std::vector<int, std::allocator<int> >::push_back(int const&)"
    )


def test_abi_tags_and_inline_namespaces_are_removed() -> None:
    assert readable("_ZNSt3__16vectorIiE4backB8nie22abcEv") == "std::vector<int>::back()"


@pytest.mark.parametrize("symbol", ["main", "_start", "_Znonsense", ""])
def test_other_symbols_are_unchanged(symbol: str) -> None:
    assert readable(symbol) == symbol


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("main", "main"),
        ("std::vector<int, std::allocator<int> >::push_back(int const&)", "std::vector::push_back"),
        ("void f<int>(int)", "f"),
        ("(anonymous namespace)::g(int) const", "{anonymous}::g"),
        ("bool operator< <int>(A<int> const&, A<int> const&)", "bool operator<"),
        ("S::operator()(int) const", "S::operator()"),
        ("a::long_name_space::another_one::f()", "another_one::f"),
        ("a_name_that_is_longer_than_the_room", "a_name_that_is_longer_t…"),
    ],
)
def test_a_long_name_loses_its_scopes_first(name: str, short: str) -> None:
    assert shortened(name, 24) == short


def test_a_context_has_the_name_of_its_first_function() -> None:
    assert short_context("f, g, h", 24) == "f +2"


def test_a_truncated_context_has_the_name_of_a_real_function() -> None:
    assert short_context("..., f, g", 24) == "f +1+"
    assert readable_context("..., f, g") == "f and 1+ more that call each other"
