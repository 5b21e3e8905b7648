"""Readable names of functions."""

from __future__ import annotations

import pytest

from mlgo_gym.explanation.names import readable, readable_context, short_context, shortened


def test_a_mangled_symbol_is_demangled() -> None:
    assert (
        readable("_ZNSt6vectorIiSaIiEE9push_backERKi") == "std::vector<int, std::allocator<int>>::push_back(int const&)"
    )


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("_ZN6semver13BuildMetadata8is_empty17h3dff11b7dd799019E", "semver::BuildMetadata::is_empty"),
        (
            "_ZN44_$LT$$RF$T$u20$as$u20$core..fmt..Display$GT$3fmt17hf53f96bdcac9c582E",
            "<&T as core::fmt::Display>::fmt",
        ),
        ("_RNvXs_Cs123_4testNtB4_3FooNtB4_5Trait1f", "<test::Foo as test::Trait>::f"),
        ("_RINvNtC3std3mem8align_ofjdE", "std::mem::align_of::<usize, f64>"),
    ],
)
def test_symbols_of_rust_are_demangled_in_both_manglings(symbol: str, name: str) -> None:
    assert readable(symbol) == name


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
        ("<test::Foo<T> as test::Trait>::f", "test::Foo::f"),
        ("<fn(u8) -> Vec<u8> as test::Trait>::f", "Vec::f"),
        ("a::<impl core::fmt::Display for a::B>::fmt", "a::fmt"),
        ("std::mem::align_of::<usize, f64>", "std::mem::align_of"),
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
