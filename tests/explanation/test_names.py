"""Symbols as people read them."""

from __future__ import annotations

import pytest

from mlgo_gym.explanation.names import readable, short_component, shortened


def test_a_mangled_symbol_is_read_as_its_source_has_it() -> None:
    assert (
        readable("_ZNSt6vectorIiSaIiEE9push_backERKi")
        == "std::vector<int, std::allocator<int> >::push_back(int const&)"
    )


def test_abi_tags_and_inline_namespaces_are_left_out() -> None:
    assert readable("_ZNSt3__16vectorIiE4backB8nie22abcEv") == "std::vector<int>::back()"


@pytest.mark.parametrize("symbol", ["main", "_start", "_Znonsense", ""])
def test_what_is_not_mangled_stays_as_it_is(symbol: str) -> None:
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
def test_a_long_name_loses_what_says_least(name: str, short: str) -> None:
    assert shortened(name, 24) == short


def test_functions_that_call_each_other_are_named_by_the_first() -> None:
    assert short_component("f, g, h", 24) == "f +2"
