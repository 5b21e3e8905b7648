// Lazy range pipelines: composable sources and adaptors (map, filter, take, zip, chunk, flatten ...) with terminal folds.
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

inline void *operator new(size_t, void *p) noexcept { return p; }

namespace rng {

template <class T> struct strip { using type = T; };
template <class T> struct strip<T &> { using type = T; };
template <class T> struct strip<const T &> { using type = T; };
template <class T> struct strip<const T> { using type = T; };
template <class T> using strip_t = typename strip<T>::type;
template <class T> T &make_ref();

template <class T> class Optional {
    alignas(T) unsigned char raw_[sizeof(T)];
    bool full_ = false;

    T *ptr() { return reinterpret_cast<T *>(raw_); }
    const T *ptr() const { return reinterpret_cast<const T *>(raw_); }

public:
    using value_type = T;
    Optional() = default;
    Optional(const T &v) : full_(true) { new (raw_) T(v); }
    Optional(const Optional &o) : full_(o.full_) {
        if (full_) new (raw_) T(*o.ptr());
    }
    Optional &operator=(const Optional &o) {
        reset();
        if (o.full_) new (raw_) T(*o.ptr());
        full_ = o.full_;
        return *this;
    }
    ~Optional() { reset(); }
    void reset() {
        if (full_) ptr()->~T();
        full_ = false;
    }
    explicit operator bool() const { return full_; }
    T &operator*() { return *ptr(); }
    const T &operator*() const { return *ptr(); }
    T *operator->() { return ptr(); }
    T value_or(const T &d) const { return full_ ? *ptr() : d; }
};

template <class A, class B> struct Pair {
    A first;
    B second;
};
template <class A, class B> bool operator==(const Pair<A, B> &x, const Pair<A, B> &y) { return x.first == y.first && x.second == y.second; }

template <class T> class List {
    T *at_ = nullptr;
    size_t size_ = 0, cap_ = 0;

public:
    List() = default;
    List(const List &o) {
        for (const T &v : o) push(v);
    }
    List &operator=(const List &) = delete;
    ~List() {
        for (size_t i = 0; i < size_; ++i) at_[i].~T();
        free(at_);
    }
    void push(const T &v) {
        if (size_ == cap_) {
            size_t cap = cap_ ? cap_ * 2 : 4;
            T *fresh = static_cast<T *>(malloc(cap * sizeof(T)));
            if (!fresh) abort();
            for (size_t i = 0; i < size_; ++i) {
                new (fresh + i) T(at_[i]);
                at_[i].~T();
            }
            free(at_);
            at_ = fresh;
            cap_ = cap;
        }
        new (at_ + size_++) T(v);
    }
    size_t size() const { return size_; }
    const T *begin() const { return at_; }
    const T *end() const { return at_ + size_; }
    const T &operator[](size_t i) const { return at_[i]; }
};

template <class S> struct Seq;

// Each stage is a generator with next() -> Optional<Item>; Seq<> adds the fluent interface.
template <class T> class CountGen {
    T cur_, end_, step_;

public:
    using Item = T;
    CountGen(T b, T e, T s) : cur_(b), end_(e), step_(s) {}
    Optional<T> next() {
        if (step_ > 0 ? cur_ >= end_ : cur_ <= end_) return {};
        T v = cur_;
        cur_ = static_cast<T>(cur_ + step_);
        return v;
    }
};

template <class T> class SpanGen {
    const T *cur_, *end_;

public:
    using Item = T;
    SpanGen(const T *b, const T *e) : cur_(b), end_(e) {}
    Optional<T> next() { return cur_ == end_ ? Optional<T>() : Optional<T>(*cur_++); }
};

template <class T, class F> class UnfoldGen {
    T state_;
    F f_;

public:
    using Item = T;
    UnfoldGen(T s, F f) : state_(s), f_(f) {}
    Optional<T> next() {
        T v = state_;
        state_ = f_(v);
        return v;
    }
};

template <class S, class F> class MapGen {
    S src_;
    F f_;

public:
    using Item = strip_t<decltype(make_ref<F>()(make_ref<typename S::Item>()))>;
    MapGen(const S &s, F f) : src_(s), f_(f) {}
    Optional<Item> next() { auto v = src_.next(); return v ? Optional<Item>(f_(*v)) : Optional<Item>(); }
};

template <class S, class P> class FilterGen {
    S src_;
    P pred_;

public:
    using Item = typename S::Item;
    FilterGen(const S &s, P p) : src_(s), pred_(p) {}
    Optional<Item> next() {
        for (auto v = src_.next(); v; v = src_.next())
            if (pred_(*v)) return v;
        return {};
    }
};

template <class S> class TakeGen {
    S src_;
    size_t left_;

public:
    using Item = typename S::Item;
    TakeGen(const S &s, size_t n) : src_(s), left_(n) {}
    Optional<Item> next() {
        if (!left_) return {};
        --left_;
        return src_.next();
    }
};

template <class S, class P> class TakeWhileGen {
    S src_;
    P pred_;
    bool open_ = true;

public:
    using Item = typename S::Item;
    TakeWhileGen(const S &s, P p) : src_(s), pred_(p) {}
    Optional<Item> next() {
        auto v = open_ ? src_.next() : Optional<Item>();
        open_ = v && pred_(*v);
        return open_ ? v : Optional<Item>();
    }
};

template <class A, class B> class ZipGen {
    A a_;
    B b_;

public:
    using Item = Pair<typename A::Item, typename B::Item>;
    ZipGen(const A &a, const B &b) : a_(a), b_(b) {}
    Optional<Item> next() {
        auto x = a_.next();
        auto y = x ? b_.next() : Optional<typename B::Item>();
        return y ? Optional<Item>(Item{*x, *y}) : Optional<Item>();
    }
};

template <class A, class B> class ChainGen {
    A a_;
    B b_;
    bool first_ = true;

public:
    using Item = typename A::Item;
    ChainGen(const A &a, const B &b) : a_(a), b_(b) {}
    Optional<Item> next() {
        if (first_) {
            if (auto v = a_.next()) return v;
            first_ = false;
        }
        return b_.next();
    }
};

template <class S> class FlattenGen {
    using Inner = typename S::Item;
    S src_;
    Optional<Inner> cur_;

public:
    using Item = typename Inner::Gen::Item;
    explicit FlattenGen(const S &s) : src_(s) {}
    Optional<Item> next() {
        for (;;) {
            if (cur_) {
                if (auto v = cur_->next()) return v;
            }
            cur_ = src_.next();
            if (!cur_) return {};
        }
    }
};

template <class S> class ChunkGen {
    S src_;
    size_t n_;

public:
    using Item = List<typename S::Item>;
    ChunkGen(const S &s, size_t n) : src_(s), n_(n) {}
    Optional<Item> next() {
        Item out;
        while (out.size() < n_) {
            auto v = src_.next();
            if (!v) break;
            out.push(*v);
        }
        return out.size() ? Optional<Item>(out) : Optional<Item>();
    }
};

template <class S, class A, class F> class ScanGen {
    S src_;
    A acc_;
    F f_;

public:
    using Item = A;
    ScanGen(const S &s, const A &a, F f) : src_(s), acc_(a), f_(f) {}
    Optional<A> next() {
        auto v = src_.next();
        if (!v) return {};
        acc_ = f_(acc_, *v);
        return acc_;
    }
};

struct Done {};

template <class S> struct Seq {
    using Gen = S;
    using Item = typename S::Item;
    S gen;

    explicit Seq(const S &s) : gen(s) {}
    Optional<Item> next() { return gen.next(); }

    // Input-iterator adaptor, for range-based for.
    class Iter {
        S *gen_;
        Optional<Item> cur_;

    public:
        explicit Iter(S *g) : gen_(g), cur_(g->next()) {}
        const Item &operator*() const { return *cur_; }
        Iter &operator++() { cur_ = gen_->next(); return *this; }
        bool operator!=(Done) const { return static_cast<bool>(cur_); }
    };
    Iter begin() { return Iter(&gen); }
    Done end() const { return {}; }

    template <class G> static Seq<G> wrap(const G &g) { return Seq<G>(g); }
    template <class F> auto map(F f) const { return wrap(MapGen<S, F>(gen, f)); }
    template <class P> auto filter(P p) const { return wrap(FilterGen<S, P>(gen, p)); }
    template <class P> auto take_while(P p) const { return wrap(TakeWhileGen<S, P>(gen, p)); }
    auto take(size_t n) const { return wrap(TakeGen<S>(gen, n)); }
    Seq drop(size_t n) const {
        Seq s(*this);
        while (n && s.next()) --n;
        return s;
    }
    template <class O> auto zip(const Seq<O> &o) const { return wrap(ZipGen<S, O>(gen, o.gen)); }
    template <class O> auto chain(const Seq<O> &o) const { return wrap(ChainGen<S, O>(gen, o.gen)); }
    auto enumerate() const { return wrap(ZipGen<CountGen<int>, S>(CountGen<int>(0, INT_MAX, 1), gen)); }
    auto flatten() const { return wrap(FlattenGen<S>(gen)); }
    auto chunk(size_t n) const { return wrap(ChunkGen<S>(gen, n)); }
    template <class A, class F> auto scan(const A &a, F f) const { return wrap(ScanGen<S, A, F>(gen, a, f)); }

    template <class A, class F> A fold(A acc, F f) const {
        Seq s(*this);
        while (auto v = s.next()) acc = f(acc, *v);
        return acc;
    }
    size_t count() const { return fold(size_t(0), [](size_t n, const Item &) { return n + 1; }); }
    Item sum() const { return fold(Item(), [](Item a, Item b) { return static_cast<Item>(a + b); }); }
    Optional<Item> first() const { return Seq(*this).next(); }
    template <class P> Optional<Item> find(P p) const { return filter(p).first(); }
    template <class P> bool any(P p) const { return static_cast<bool>(find(p)); }
    template <class P> bool all(P p) const { return !any([&](const Item &v) { return !p(v); }); }
    template <class Less> Optional<Item> best(Less less) const {
        Seq s(*this);
        Optional<Item> top = s.next();
        while (auto v = s.next())
            if (less(*top, *v)) top = v;
        return top;
    }
    Optional<Item> max() const { return best([](const Item &a, const Item &b) { return a < b; }); }
    List<Item> collect() const {
        List<Item> out;
        for (const Item &v : Seq(*this)) out.push(v);
        return out;
    }
};

template <class T> Seq<CountGen<T>> range(T b, T e, T s = 1) { return Seq<CountGen<T>>(CountGen<T>(b, e, s)); }
template <class T> Seq<SpanGen<T>> over(const List<T> &l) { return Seq<SpanGen<T>>(SpanGen<T>(l.begin(), l.end())); }
template <class T, size_t N> Seq<SpanGen<T>> over(const T (&a)[N]) { return Seq<SpanGen<T>>(SpanGen<T>(a, a + N)); }
template <class T, class F> Seq<UnfoldGen<T, F>> unfold(T s, F f) { return Seq<UnfoldGen<T, F>>(UnfoldGen<T, F>(s, f)); }

} // namespace rng

using namespace rng;

bool is_prime(int n) { return n > 1 && range(2, n).take_while([n](int d) { return d * d <= n; }).all([n](int d) { return n % d; }); }

List<int> primes(size_t n) { return range(2, INT_MAX).filter(is_prime).take(n).collect(); }

int64_t even_fibonacci_sum(int64_t limit) {
    using State = Pair<int64_t, int64_t>;
    return unfold(State{1, 2}, [](State s) { return State{s.second, s.first + s.second}; })
        .map([](State s) { return s.first; })
        .take_while([limit](int64_t v) { return v < limit; })
        .filter([](int64_t v) { return v % 2 == 0; })
        .sum();
}

// Pythagorean triples with hypotenuse below n.
size_t triples(int n) {
    return range(1, n)
        .map([n](int a) { return range(a, n).map([a](int b) { return Pair<int, int>{a, b}; }); })
        .flatten()
        .filter([n](Pair<int, int> p) {
            int sq = p.first * p.first + p.second * p.second;
            return range(1, n).any([sq](int c) { return c * c == sq; });
        })
        .count();
}

double moving_average_peak(const List<double> &v, size_t w) {
    return range(size_t(0), v.size() - w + 1)
        .map([&](size_t i) { return over(v).drop(i).take(w).sum() / static_cast<double>(w); })
        .max()
        .value_or(0);
}

// Run-length encoding of a digit sequence.
List<Pair<char, int>> run_lengths(const char *text) {
    List<Pair<char, int>> out;
    auto chars = unfold(text, [](const char *p) { return p + 1; }).take_while([](const char *p) { return *p; }).map([](const char *p) { return *p; });
    Optional<Pair<char, int>> run;
    for (char c : chars) {
        if (run && run->first == c) {
            ++run->second;
            continue;
        }
        if (run) out.push(*run);
        run = Pair<char, int>{c, 1};
    }
    if (run) out.push(*run);
    return out;
}

int inversion_count(const List<int> &v) {
    return over(v).enumerate().fold(0, [&](int n, const Pair<int, int> &p) {
        return n + static_cast<int>(over(v).drop(static_cast<size_t>(p.first)).filter([&](int x) { return x < p.second; }).count());
    });
}

extern "C" int iterators_selftest() {
    List<int> p = primes(25);
    if (p.size() != 25 || p[24] != 97 || over(p).sum() != 1060) return 1;
    if (even_fibonacci_sum(4000000) != 4613732 || triples(30) != 10) return 2;
    const double samples[] = {1, 4, 2, 8, 5, 7, 1};
    if (moving_average_peak(over(samples).collect(), 3) != 20.0 / 3) return 3;
    List<Pair<char, int>> runs = run_lengths("aaabccdddd");
    if (runs.size() != 4 || !(runs[3] == Pair<char, int>{'d', 4}) || run_lengths("").size()) return 4;
    const int mixed[] = {5, 1, 4, 2, 3};
    if (inversion_count(over(mixed).collect()) != 6) return 5;
    auto tens = range(10, 0, -3).chain(over(mixed));
    if (tens.count() != 9 || tens.sum() != 37 || tens.drop(4).first().value_or(0) != 5) return 6;
    auto chunks = range(0, 10).chunk(4).map([](const List<int> &c) { return over(c).sum(); }).collect();
    if (chunks.size() != 3 || chunks[1] != 22 || chunks[2] != 17) return 7;
    auto totals = over(mixed).scan(int64_t(100), [](int64_t a, int b) { return a - b; }).collect();
    if (totals[4] != 85 || !over(totals).all([](int64_t v) { return v < 100; })) return 8;
    auto dot = over(mixed).zip(range(1, 100)).map([](Pair<int, int> q) { return q.first * q.second; }).sum();
    if (dot != 42 || over(mixed).find([](int v) { return v > 9; })) return 9;
    auto words = range(0, 3).map([](int i) { return range(0, i).map([i](int j) { return i * 10 + j; }); }).flatten().collect();
    return words.size() == 3 && words[2] == 21 ? 0 : 10;
}
