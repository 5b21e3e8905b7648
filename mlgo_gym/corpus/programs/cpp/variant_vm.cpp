// A dynamic language core: reference-counted variant values, arrays and closures, and a stack interpreter with an assembler.
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

inline void *operator new(size_t, void *p) noexcept { return p; }

namespace vm {

template <class T> class Rc {
    T *p_ = nullptr;

    void retain() const { if (p_) ++p_->refs; }
    void release() {
        if (!p_ || --p_->refs) return;
        p_->~T();
        free(p_);
    }

public:
    Rc() = default;
    explicit Rc(T *p) : p_(p) { retain(); }
    Rc(const Rc &o) : p_(o.p_) { retain(); }
    Rc(Rc &&o) : p_(o.p_) { o.p_ = nullptr; }
    Rc &operator=(Rc o) {
        T *t = p_;
        p_ = o.p_;
        o.p_ = t;
        return *this;
    }
    ~Rc() { release(); }
    T *operator->() const { return p_; }
    T &operator*() const { return *p_; }
    bool operator==(const Rc &o) const { return p_ == o.p_; }
    template <class... A> static Rc make(A... args) {
        void *mem = malloc(sizeof(T));
        if (!mem) abort();
        return Rc(new (mem) T(args...));
    }
};

template <class T> class Stack {
    T *at_ = nullptr;
    size_t size_ = 0, cap_ = 0;

public:
    Stack() = default;
    Stack(const Stack &) = delete;
    Stack &operator=(const Stack &) = delete;
    ~Stack() { shrink(0); free(at_); }
    void push(T v) {
        if (size_ == cap_) {
            size_t cap = cap_ ? cap_ * 2 : 8;
            T *fresh = static_cast<T *>(malloc(cap * sizeof(T)));
            if (!fresh) abort();
            for (size_t i = 0; i < size_; ++i) {
                new (fresh + i) T(static_cast<T &&>(at_[i]));
                at_[i].~T();
            }
            free(at_);
            at_ = fresh;
            cap_ = cap;
        }
        new (at_ + size_++) T(static_cast<T &&>(v));
    }
    T pop() {
        T v(static_cast<T &&>(at_[size_ - 1]));
        shrink(size_ - 1);
        return v;
    }
    void shrink(size_t n) { while (size_ > n) at_[--size_].~T(); }
    template <class Eq> bool equals(const Stack &o, Eq eq) const {
        size_t i = 0;
        while (i < size_ && i < o.size_ && eq(at_[i], o.at_[i])) ++i;
        return i == size_ && i == o.size_;
    }
    size_t size() const { return size_; }
    T &operator[](size_t i) { return at_[i]; }
    const T &operator[](size_t i) const { return at_[i]; }
    T &top(size_t depth = 0) { return at_[size_ - 1 - depth]; }
};

struct Text; struct Array; struct Closure;
enum class Tag : uint8_t { Nil, Bool, Int, Real, Text, Array, Closure };

class Value {
    Tag tag_ = Tag::Nil;
    union {
        bool b_;
        int64_t i_;
        double d_;
        Rc<Text> t_;
        Rc<Array> a_;
        Rc<Closure> c_;
    };

    void copy(const Value &o);
    void destroy();

public:
    Value() : i_(0) {}
    Value(bool b) : tag_(Tag::Bool), b_(b) {}
    Value(int i) : tag_(Tag::Int), i_(i) {}
    Value(int64_t i) : tag_(Tag::Int), i_(i) {}
    Value(double d) : tag_(Tag::Real), d_(d) {}
    Value(const Rc<Text> &t) : tag_(Tag::Text), t_(t) {}
    Value(const Rc<Array> &a) : tag_(Tag::Array), a_(a) {}
    Value(const Rc<Closure> &c) : tag_(Tag::Closure), c_(c) {}
    Value(const char *s);
    Value(const Value &o) : i_(0) { copy(o); }
    Value &operator=(const Value &o) {
        Value keep(o);
        destroy();
        copy(keep);
        return *this;
    }
    ~Value() { destroy(); }

    Tag tag() const { return tag_; }
    bool is(Tag t) const { return tag_ == t; }
    bool is_number() const { return is(Tag::Int) || is(Tag::Real); }
    int64_t as_int() const { return i_; }
    double as_real() const { return is(Tag::Int) ? static_cast<double>(i_) : d_; }
    const Rc<Text> &text() const { return t_; }
    const Rc<Array> &array() const { return a_; }
    const Rc<Closure> &closure() const { return c_; }

    // Calls f with the held alternative.
    template <class F> auto visit(F &&f) const {
        switch (tag_) {
        case Tag::Bool: return f(b_);
        case Tag::Int: return f(i_);
        case Tag::Real: return f(d_);
        case Tag::Text: return f(t_);
        case Tag::Array: return f(a_);
        case Tag::Closure: return f(c_);
        default: return f(nullptr);
        }
    }
    bool truthy() const;
    size_t length() const;
};

struct Text {
    int refs = 0;
    size_t size = 0;
    char *data;
    Text(const char *a, size_t an, const char *b, size_t bn) : size(an + bn), data(static_cast<char *>(malloc(an + bn + 1))) {
        if (!data) abort();
        memcpy(data, a, an);
        memcpy(data + an, b, bn);
        data[size] = 0;
    }
    Text(const Text &) = delete;
    ~Text() { free(data); }
    bool equals(const Text &o) const { return size == o.size && memcmp(data, o.data, size) == 0; }
};
struct Array {
    int refs = 0;
    Stack<Value> items;
    bool in_range(int64_t i) const { return i >= 0 && static_cast<size_t>(i) < items.size(); }
    Value &at(int64_t i) { return items[static_cast<size_t>(i)]; }
};
struct Closure {
    int refs = 0;
    int entry, arity;
    Stack<Value> captured;
    Closure(int e, int a) : entry(e), arity(a) {}
};

Value::Value(const char *s) : tag_(Tag::Text), t_(Rc<Text>::make(s, strlen(s), "", size_t(0))) {}

void Value::copy(const Value &o) {
    tag_ = o.tag_;
    switch (tag_) {
    case Tag::Text: new (&t_) Rc<Text>(o.t_); break;
    case Tag::Array: new (&a_) Rc<Array>(o.a_); break;
    case Tag::Closure: new (&c_) Rc<Closure>(o.c_); break;
    default: memcpy(&i_, &o.i_, sizeof i_); break;
    }
}
void Value::destroy() {
    switch (tag_) {
    case Tag::Text: t_.~Rc<Text>(); break;
    case Tag::Array: a_.~Rc<Array>(); break;
    case Tag::Closure: c_.~Rc<Closure>(); break;
    default: break;
    }
    tag_ = Tag::Nil;
}

// Overload set out of lambdas.
template <class... F> struct Match : F... { using F::operator()...; };
template <class... F> Match(F...) -> Match<F...>;

bool Value::truthy() const {
    return visit(Match{[](bool b) { return b; }, [](int64_t i) { return i != 0; }, [](double d) { return d != 0; }, [](decltype(nullptr)) { return false; },
                       [](const Rc<Text> &t) { return t->size != 0; }, [](const Rc<Array> &a) { return a->items.size() != 0; }, [](const Rc<Closure> &) { return true; }});
}
size_t Value::length() const {
    return visit(Match{[](const Rc<Text> &t) { return t->size; }, [](const Rc<Array> &a) { return a->items.size(); }, [](const auto &) { return size_t(0); }});
}

bool equal(const Value &a, const Value &b) {
    if (a.is_number() && b.is_number()) return a.as_real() == b.as_real();
    if (a.tag() != b.tag()) return false;
    switch (a.tag()) {
    case Tag::Bool: return a.truthy() == b.truthy();
    case Tag::Text: return a.text()->equals(*b.text());
    case Tag::Closure: return a.closure() == b.closure();
    case Tag::Array: return a.array()->items.equals(b.array()->items, equal);
    default: return true;
    }
}

enum class Op : uint8_t { Push, Dup, Drop, Local, SetLocal, Captured, Add, Sub, Mul, Div, Less, Eq, Not, Jump, JumpIfNot, MakeArray, Index, Append, Len, MakeClosure, Call, Return, Halt };

struct Insn { Op op; int a, b; };

class Program {
    Stack<Insn> code_;
    Stack<Value> pool_;

public:
    int here() const { return static_cast<int>(code_.size()); }
    const Insn &at(int pc) const { return code_[static_cast<size_t>(pc)]; }
    const Value &constant(int i) const { return pool_[static_cast<size_t>(i)]; }
    Program &op(Op o, int a = 0, int b = 0) { code_.push(Insn{o, a, b}); return *this; }
    Program &push(const Value &v) { pool_.push(v); return op(Op::Push, static_cast<int>(pool_.size()) - 1); }
    Program &local(int i) { return op(Op::Local, i); }
    Program &set(int i) { return op(Op::SetLocal, i); }
    int branch(Op o) { op(o); return here() - 1; }
    void land(int at) { code_[static_cast<size_t>(at)].a = here(); }
    // Emits a function body out of line; returns its entry address.
    template <class F> int function(F body) {
        int skip = branch(Op::Jump);
        body(*this);
        op(Op::Return).land(skip);
        return skip + 1;
    }
    template <class C, class B> void loop(C cond, B body) {
        int top = here();
        cond(*this);
        int out = branch(Op::JumpIfNot);
        body(*this);
        op(Op::Jump, top).land(out);
    }
};

enum class Error : uint8_t { None, Type, Range, Arity, Depth, Fuel };

class Machine {
    struct Frame { int ret; size_t base; Rc<Closure> fn; };
    const Program &prog_;
    Stack<Value> stack_;
    Stack<Frame> frames_;
    Error error_ = Error::None;
    int pc_ = 0;

    bool fail(Error e) { error_ = e; return false; }
    bool replace(size_t drop, const Value &v) {
        stack_.shrink(stack_.size() - drop);
        stack_.push(v);
        return true;
    }
    Value &slot(int i) { return stack_[frames_.top().base + static_cast<size_t>(i)]; }
    template <class I, class R> bool numeric(I ints, R reals) {
        Value b = stack_.pop(), a = stack_.pop();
        if (!a.is_number() || !b.is_number()) return fail(Error::Type);
        bool exact = a.is(Tag::Int) && b.is(Tag::Int);
        return replace(0, exact ? Value(ints(a.as_int(), b.as_int())) : Value(reals(a.as_real(), b.as_real())));
    }
    static int64_t wrap(uint64_t v) { return static_cast<int64_t>(v); }
    static uint64_t bits(int64_t v) { return static_cast<uint64_t>(v); }
    bool add() {
        const Value &a = stack_.top(1), &b = stack_.top();
        if (!a.is(Tag::Text) || !b.is(Tag::Text)) return numeric([](int64_t x, int64_t y) { return wrap(bits(x) + bits(y)); }, [](double x, double y) { return x + y; });
        Value joined(Rc<Text>::make(a.text()->data, a.text()->size, b.text()->data, b.text()->size));
        return replace(2, joined);
    }
    bool divide() {
        if (stack_.top().is(Tag::Int) && stack_.top().as_int() == 0) return fail(Error::Range);
        return numeric([](int64_t x, int64_t y) { return y == -1 ? wrap(0 - bits(x)) : x / y; }, [](double x, double y) { return x / y; });
    }
    bool index() {
        Value i = stack_.pop(), a = stack_.pop();
        if (!a.is(Tag::Array) || !i.is(Tag::Int)) return fail(Error::Type);
        return a.array()->in_range(i.as_int()) ? replace(0, a.array()->at(i.as_int())) : fail(Error::Range);
    }
    bool append() {
        if (!stack_.top(1).is(Tag::Array)) return fail(Error::Type);
        Value v = stack_.pop();
        stack_.top().array()->items.push(v);
        return true;
    }
    template <class C> void move_to(C &into, int n) {
        size_t from = stack_.size() - static_cast<size_t>(n);
        for (size_t i = from; i < stack_.size(); ++i) into.push(stack_[i]);
        stack_.shrink(from);
    }
    // Stack before a call: callee, then argc arguments.
    bool call(int argc) {
        const Value &callee = stack_.top(static_cast<size_t>(argc));
        if (!callee.is(Tag::Closure)) return fail(Error::Type);
        if (callee.closure()->arity != argc) return fail(Error::Arity);
        if (frames_.size() > 500) return fail(Error::Depth);
        frames_.push(Frame{pc_, stack_.size() - static_cast<size_t>(argc), callee.closure()});
        pc_ = frames_.top().fn->entry;
        return true;
    }
    bool leave() {
        Value result = stack_.pop();
        Frame f = frames_.pop();
        replace(stack_.size() - (f.base - 1), result);
        pc_ = f.ret;
        return true;
    }
    bool step(const Insn &in) {
        switch (in.op) {
        case Op::Push: return replace(0, prog_.constant(in.a));
        case Op::Dup: return replace(0, Value(stack_.top()));
        case Op::Drop: stack_.pop(); return true;
        case Op::Local: return replace(0, Value(slot(in.a)));
        case Op::SetLocal: slot(in.a) = stack_.pop(); return true;
        case Op::Captured: return replace(0, frames_.top().fn->captured[static_cast<size_t>(in.a)]);
        case Op::Add: return add();
        case Op::Sub: return numeric([](int64_t x, int64_t y) { return wrap(bits(x) - bits(y)); }, [](double x, double y) { return x - y; });
        case Op::Mul: return numeric([](int64_t x, int64_t y) { return wrap(bits(x) * bits(y)); }, [](double x, double y) { return x * y; });
        case Op::Div: return divide();
        case Op::Less: return numeric([](int64_t x, int64_t y) { return x < y; }, [](double x, double y) { return x < y; });
        case Op::Eq: { Value b = stack_.pop(), a = stack_.pop(); return replace(0, Value(equal(a, b))); }
        case Op::Not: return replace(1, Value(!stack_.top().truthy()));
        case Op::Jump: pc_ = in.a; return true;
        case Op::JumpIfNot: if (!stack_.pop().truthy()) pc_ = in.a; return true;
        case Op::MakeArray: { Rc<Array> a = Rc<Array>::make(); move_to(a->items, in.a); return replace(0, Value(a)); }
        case Op::Index: return index();
        case Op::Append: return append();
        case Op::Len: return replace(1, Value(static_cast<int64_t>(stack_.top().length())));
        case Op::MakeClosure: { Rc<Closure> c = Rc<Closure>::make(in.a, in.b & 15); move_to(c->captured, in.b >> 4); return replace(0, Value(c)); }
        case Op::Call: return call(in.a);
        case Op::Return: return leave();
        case Op::Halt: return false;
        }
        return false;
    }

public:
    explicit Machine(const Program &p) : prog_(p) { frames_.push(Frame{0, 0, Rc<Closure>()}); }
    Value run(int fuel) {
        while (fuel-- > 0)
            if (!step(prog_.at(pc_++))) return error_ == Error::None ? stack_.pop() : Value();
        error_ = Error::Fuel;
        return Value();
    }
    Error error() const { return error_; }
};

} // namespace vm

using namespace vm;

static bool yields(Program &p, const Value &want) {
    p.op(Op::Halt);
    Machine m(p);
    return equal(m.run(100000), want) && m.error() == Error::None;
}
static Error breaks(Program &p) {
    p.op(Op::Halt);
    Machine m(p);
    m.run(20000);
    return m.error();
}

static int check_errors() {
    Program a, b, c, d, e;
    if (breaks(a.push(1).push("x").op(Op::Add)) != Error::Type || breaks(b.push(1).push(0).op(Op::Div)) != Error::Range) return 1;
    if (breaks(c.push(7).op(Op::MakeArray, 1).push(1).op(Op::Index)) != Error::Range) return 2;
    if (breaks(d.op(Op::Jump, 0)) != Error::Fuel) return 3;
    int self = e.function([](Program &f) { f.local(0).local(0).op(Op::Call, 1); });
    return breaks(e.op(Op::MakeClosure, self, 1).op(Op::Dup).op(Op::Call, 1)) == Error::Depth ? 0 : 4;
}

extern "C" int variant_vm_selftest() {
    Program fact; // locals: n, acc
    fact.push(10).push(1);
    fact.loop([](Program &p) { p.push(0).local(0).op(Op::Less); }, [](Program &p) { p.local(1).local(0).op(Op::Mul).set(1).local(0).push(1).op(Op::Sub).set(0); });
    if (!yields(fact.local(1), 3628800)) return 1;

    Program adder; // closure capturing two values, called with one
    int fn = adder.function([](Program &p) { p.op(Op::Captured, 0).op(Op::Captured, 1).op(Op::Add).local(0).op(Op::Add); });
    adder.push("ab").push("cd").op(Op::MakeClosure, fn, 2 << 4 | 1);
    if (!yields(adder.push("ef").op(Op::Call, 1), "abcdef")) return 2;

    Program fib; // the function receives itself as its second argument
    int f = fib.function([](Program &p) {
        p.local(0).push(2).op(Op::Less);
        int big = p.branch(Op::JumpIfNot);
        p.local(0).op(Op::Return);
        p.land(big);
        for (int k = 1; k <= 2; ++k) p.local(1).local(0).push(k).op(Op::Sub).local(1).op(Op::Call, 2);
        p.op(Op::Add);
    });
    fib.op(Op::MakeClosure, f, 2).push(15).local(0).op(Op::Call, 2);
    if (!yields(fib, 610)) return 3;

    Program squares; // array of squares, then its length plus element 4 plus 0.5
    squares.op(Op::MakeArray, 0).push(0);
    squares.loop([](Program &p) { p.local(1).push(6).op(Op::Less); }, [](Program &p) { p.local(0).local(1).op(Op::Dup).op(Op::Mul).op(Op::Append).op(Op::Drop).local(1).push(1).op(Op::Add).set(1); });
    squares.local(0).op(Op::Len).local(0).push(4).op(Op::Index).op(Op::Add).push(0.5).op(Op::Add);
    if (!yields(squares, 22.5)) return 4;

    Program same;
    same.push(1).push("q").op(Op::MakeArray, 2).push(1.0).push("q").op(Op::MakeArray, 2).op(Op::Eq);
    if (!yields(same, true)) return 5;
    if (int r = check_errors()) return 10 + r;
    return 0;
}
