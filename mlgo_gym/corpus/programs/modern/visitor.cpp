// An expression tree of variants: evaluation, simplification and comparison by visitors.
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

namespace visitor {

template <class... Cases> struct Overloaded : Cases... {
    using Cases::operator()...;
};

struct Expression;
using Pointer = std::shared_ptr<const Expression>;

struct Number {
    long value;
};
struct Variable {
    char name;
};
struct Negation {
    Pointer operand;
};
struct Binary {
    char symbol;
    Pointer left, right;
};
struct Expression {
    std::variant<Number, Variable, Negation, Binary> node;
};

template <class Node> static Pointer make(Node node) { return std::make_shared<Expression>(Expression{std::move(node)}); }

static long apply(char symbol, long left, long right) {
    switch (symbol) {
    case '+': return left + right;
    case '-': return left - right;
    case '*': return left * right;
    default: return right ? left / right : 0;
    }
}

long evaluate(const Expression &expression, const long (&values)[26]) {
    return std::visit(
        Overloaded{
            [](const Number &number) { return number.value; },
            [&](const Variable &variable) { return values[variable.name - 'a']; },
            [&](const Negation &negation) { return -evaluate(*negation.operand, values); },
            [&](const Binary &binary) {
                return apply(binary.symbol, evaluate(*binary.left, values), evaluate(*binary.right, values));
            },
        },
        expression.node);
}

static const Number *number(const Pointer &pointer) { return std::get_if<Number>(&pointer->node); }

Pointer simplify(const Pointer &pointer) {
    return std::visit(
        Overloaded{
            [&](const auto &) { return pointer; },
            [](const Negation &negation) {
                auto operand = simplify(negation.operand);
                if (auto *constant = number(operand)) return make(Number{-constant->value});
                if (auto *inner = std::get_if<Negation>(&operand->node)) return inner->operand;
                return make(Negation{std::move(operand)});
            },
            [](const Binary &binary) {
                auto left = simplify(binary.left), right = simplify(binary.right);
                auto *a = number(left), *b = number(right);
                if (a && b) return make(Number{apply(binary.symbol, a->value, b->value)});
                if (b && b->value == 0 && (binary.symbol == '+' || binary.symbol == '-')) return left;
                if (a && a->value == 1 && binary.symbol == '*') return right;
                return make(Binary{binary.symbol, std::move(left), std::move(right)});
            },
        },
        pointer->node);
}

bool equal(const Expression &one, const Expression &other) {
    return std::visit(
        []<class A, class B>(const A &a, const B &b) {
            if constexpr (!std::is_same_v<A, B>) return false;
            else if constexpr (std::is_same_v<A, Number>) return a.value == b.value;
            else if constexpr (std::is_same_v<A, Variable>) return a.name == b.name;
            else if constexpr (std::is_same_v<A, Negation>) return equal(*a.operand, *b.operand);
            else return a.symbol == b.symbol && equal(*a.left, *b.left) && equal(*a.right, *b.right);
        },
        one.node, other.node);
}

Pointer parse(const char *&text) {
    const char symbol = *text++;
    if (symbol >= '0' && symbol <= '9') return make(Number{symbol - '0'});
    if (symbol >= 'a' && symbol <= 'z') return make(Variable{symbol});
    if (symbol == '~') return make(Negation{parse(text)});
    auto left = parse(text);
    return make(Binary{symbol, std::move(left), parse(text)});
}

} // namespace visitor
