// Sorting library: introsort, stable merge sort, heap and radix sorts, selection and set operations with comparators and projections.
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

namespace srt {

template <class T> T &&move(T &v) { return static_cast<T &&>(v); }
template <class T> void swap(T &a, T &b) {
    T t(move(a));
    a = move(b);
    b = move(t);
}

template <class T> class Span {
    T *p_;
    size_t n_;

public:
    using Item = T;
    Span(T *p, size_t n) : p_(p), n_(n) {}
    template <size_t N> Span(T (&a)[N]) : p_(a), n_(N) {}
    T *begin() const { return p_; }
    T *end() const { return p_ + n_; }
    size_t size() const { return n_; }
    bool empty() const { return n_ == 0; }
    T &operator[](size_t i) const { return p_[i]; }
    T &back() const { return p_[n_ - 1]; }
    Span first(size_t n) const { return Span(p_, n); }
    Span from(size_t at) const { return Span(p_ + at, n_ - at); }
    Span middle(size_t a, size_t b) const { return from(a).first(b - a); }
    void reverse() const {
        for (size_t i = 0; i < n_ / 2; ++i) swap(p_[i], p_[n_ - 1 - i]);
    }
};

// Scratch memory released on scope exit; items are trivially copyable or movable by assignment.
template <class T> class Scratch {
    T *p_;
    size_t n_;

public:
    explicit Scratch(size_t n) : p_(static_cast<T *>(calloc(n ? n : 1, sizeof(T)))), n_(n) {
        if (!p_) abort();
    }
    Scratch(const Scratch &) = delete;
    Scratch &operator=(const Scratch &) = delete;
    ~Scratch() { free(p_); }
    T &operator[](size_t i) { return p_[i]; }
    Span<T> span() { return Span<T>(p_, n_); }
};

struct Less {
    template <class A, class B> bool operator()(const A &a, const B &b) const { return a < b; }
};
struct Greater {
    template <class A, class B> bool operator()(const A &a, const B &b) const { return b < a; }
};
struct Self {
    template <class T> const T &operator()(const T &v) const { return v; }
};

// Comparator made from an order and a projection.
template <class Cmp, class Proj> class By {
    Cmp cmp_;
    Proj proj_;

public:
    By(Cmp c, Proj p) : cmp_(c), proj_(p) {}
    template <class T> bool operator()(const T &a, const T &b) const { return cmp_(proj_(a), proj_(b)); }
};
template <class Proj> By<Less, Proj> by(Proj p) { return {Less(), p}; }
template <class Proj> By<Greater, Proj> by_descending(Proj p) { return {Greater(), p}; }

// First order, then second for ties.
template <class A, class B> class Then {
    A a_;
    B b_;

public:
    Then(A a, B b) : a_(a), b_(b) {}
    template <class T> bool operator()(const T &x, const T &y) const { return a_(x, y) || (!a_(y, x) && b_(x, y)); }
};
template <class A, class B> Then<A, B> then(A a, B b) { return {a, b}; }

// Counts comparisons while delegating.
template <class Cmp> class Counting {
    Cmp cmp_;
    size_t *n_;

public:
    Counting(Cmp c, size_t *n) : cmp_(c), n_(n) {}
    template <class T> bool operator()(const T &a, const T &b) const {
        ++*n_;
        return cmp_(a, b);
    }
};

template <class T, class Cmp> bool is_sorted(Span<T> s, Cmp less) {
    for (size_t i = 1; i < s.size(); ++i)
        if (less(s[i], s[i - 1])) return false;
    return true;
}

template <class T, class Cmp> void insertion_sort(Span<T> s, Cmp less) {
    for (size_t i = 1; i < s.size(); ++i) {
        T v(move(s[i]));
        size_t j = i;
        for (; j > 0 && less(v, s[j - 1]); --j) s[j] = move(s[j - 1]);
        s[j] = move(v);
    }
}

template <class T, class Cmp> void sift_down(Span<T> s, size_t i, Cmp less) {
    for (size_t kid; (kid = 2 * i + 1) < s.size(); i = kid) {
        if (kid + 1 < s.size() && less(s[kid], s[kid + 1])) ++kid;
        if (!less(s[i], s[kid])) return;
        swap(s[i], s[kid]);
    }
}
template <class T, class Cmp> void heap_sort(Span<T> s, Cmp less) {
    for (size_t i = s.size() / 2; i-- > 0;) sift_down(s, i, less);
    for (size_t n = s.size(); n > 1; --n) {
        swap(s[0], s[n - 1]);
        sift_down(s.first(n - 1), 0, less);
    }
}

template <class T, class Cmp> size_t median3(Span<T> s, size_t a, size_t b, size_t c, Cmp less) {
    if (less(s[b], s[a])) swap(a, b);
    if (less(s[c], s[b])) swap(b, c);
    return less(s[b], s[a]) ? a : b;
}
template <class T, class Cmp> size_t choose_pivot(Span<T> s, Cmp less) {
    size_t n = s.size(), mid = n / 2, step = n / 8;
    if (n < 128) return median3(s, 0, mid, n - 1, less);
    size_t a = median3(s, 0, step, 2 * step, less), b = median3(s, mid - step, mid, mid + step, less), c = median3(s, n - 1 - 2 * step, n - 1 - step, n - 1, less);
    return median3(s, a, b, c, less);
}

struct Cut {
    size_t lt, gt;
};
// Three-way partition: [0,lt) below, [lt,gt) equal, [gt,n) above the pivot.
template <class T, class Cmp> Cut partition(Span<T> s, Cmp less) {
    swap(s[0], s[choose_pivot(s, less)]);
    size_t lt = 0, i = 1, gt = s.size();
    while (i < gt) {
        if (less(s[i], s[lt])) swap(s[lt++], s[i++]);
        else if (less(s[lt], s[i])) swap(s[i], s[--gt]);
        else ++i;
    }
    return Cut{lt, gt};
}

template <class T, class Cmp> void intro_loop(Span<T> s, int budget, Cmp less) {
    while (s.size() > 16) {
        if (budget-- == 0) return heap_sort(s, less);
        Cut c = partition(s, less);
        Span<T> low = s.first(c.lt), high = s.from(c.gt);
        bool low_is_small = low.size() < high.size();
        intro_loop(low_is_small ? low : high, budget, less);
        s = low_is_small ? high : low;
    }
    insertion_sort(s, less);
}
inline int log2_floor(size_t n) {
    int k = 0;
    while (n >>= 1) ++k;
    return k;
}
template <class T, class Cmp = Less> void sort(Span<T> s, Cmp less = Cmp()) { intro_loop(s, 2 * log2_floor(s.size() + 1), less); }

template <class T, class Cmp> void nth_element(Span<T> s, size_t k, Cmp less) {
    while (s.size() > 1) {
        Cut c = partition(s, less);
        if (k < c.lt) {
            s = s.first(c.lt);
        } else if (k >= c.gt) {
            s = s.from(c.gt);
            k -= c.gt;
        } else {
            return;
        }
    }
}

// Merges two sorted spans into out, taking from a on ties.
template <class T, class Cmp> size_t merge_into(Span<T> a, Span<T> b, T *out, Cmp less) {
    T *start = out;
    size_t i = 0, j = 0;
    while (i < a.size() && j < b.size()) *out++ = less(b[j], a[i]) ? b[j++] : a[i++];
    while (i < a.size()) *out++ = a[i++];
    while (j < b.size()) *out++ = b[j++];
    return static_cast<size_t>(out - start);
}
template <class T, class Cmp> size_t run_length(Span<T> s, Cmp less) {
    size_t n = 1;
    if (s.size() < 2) return s.size();
    bool falling = less(s[1], s[0]);
    while (n < s.size() && less(s[n], s[n - 1]) == falling) ++n;
    if (falling) s.first(n).reverse();
    return n;
}
// Natural merge sort with a stack of runs.
template <class T, class Cmp = Less> void stable_sort(Span<T> s, Cmp less = Cmp()) {
    Scratch<T> tmp(s.size());
    size_t ends[64];
    int depth = 0;
    auto start = [&](int i) { return i ? ends[i - 1] : 0; };
    auto length = [&](int i) { return ends[i] - start(i); };
    auto collapse = [&] {
        size_t a = start(depth - 2), mid = ends[depth - 2], b = ends[depth - 1];
        size_t n = merge_into(s.middle(a, mid), s.middle(mid, b), &tmp[0], less);
        for (size_t i = 0; i < n; ++i) s[a + i] = move(tmp[i]);
        ends[--depth - 1] = b;
    };
    for (size_t at = 0; at < s.size();) {
        size_t n = run_length(s.from(at), less);
        if (n < 8) {
            n = s.size() - at < 8 ? s.size() - at : 8;
            insertion_sort(s.middle(at, at + n), less);
        }
        ends[depth++] = at += n;
        while (depth > 1 && length(depth - 2) < 2 * length(depth - 1)) collapse();
    }
    while (depth > 1) collapse();
}

// Order-preserving maps from keys to unsigned integers.
inline uint32_t radix_key(uint32_t v) { return v; }
inline uint32_t radix_key(int32_t v) { return static_cast<uint32_t>(v) ^ 0x80000000u; }
inline uint32_t radix_key(float v) {
    uint32_t b;
    memcpy(&b, &v, sizeof b);
    return b & 0x80000000u ? ~b : b | 0x80000000u;
}
inline uint64_t radix_key(uint64_t v) { return v; }

template <class T, class Proj = Self> void radix_sort(Span<T> s, Proj proj = Proj()) {
    Scratch<T> tmp(s.size());
    Span<T> from = s, to = tmp.span();
    constexpr int passes = sizeof(radix_key(proj(s[0])));
    for (int pass = 0; pass < passes; ++pass) {
        auto digit = [&](const T &v) { return static_cast<size_t>(radix_key(proj(v)) >> (8 * pass) & 255); };
        size_t count[257] = {};
        for (const T &v : from) ++count[digit(v) + 1];
        for (int i = 0; i < 256; ++i) count[i + 1] += count[i];
        for (T &v : from) to[count[digit(v)]++] = move(v);
        swap(from, to);
    }
}

template <class T, class V, class Proj = Self> size_t lower_bound(Span<T> s, const V &v, Proj proj = Proj()) {
    size_t lo = 0;
    for (size_t n = s.size(); n > 0;) {
        size_t half = n / 2;
        bool right = proj(s[lo + half]) < v;
        lo = right ? lo + half + 1 : lo;
        n = right ? n - half - 1 : half;
    }
    return lo;
}
template <class T, class Cmp> size_t unique(Span<T> s, Cmp less) {
    size_t w = 0;
    for (size_t i = 0; i < s.size(); ++i)
        if (w == 0 || less(s[w - 1], s[i])) swap(s[w++], s[i]);
    return w;
}
template <class T, class Cmp> size_t intersect(Span<T> a, Span<T> b, T *out, Cmp less) {
    size_t i = 0, j = 0, n = 0;
    while (i < a.size() && j < b.size()) {
        if (less(a[i], b[j])) ++i;
        else if (less(b[j], a[i])) ++j;
        else {
            out[n++] = a[i++];
            ++j;
        }
    }
    return n;
}

} // namespace srt

using srt::Span;

struct Employee {
    char name[12];
    int32_t age;
    float salary;
    uint32_t seq;
};
inline int compare_names(const Employee &a, const Employee &b) { return strcmp(a.name, b.name); }
struct ByName {
    bool operator()(const Employee &a, const Employee &b) const { return compare_names(a, b) < 0; }
};

void sort_by_age_then_name(Span<Employee> s) { srt::sort(s, srt::then(srt::by([](const Employee &e) { return e.age; }), ByName())); }
void sort_by_salary(Span<Employee> s) {
    srt::radix_sort(s, [](const Employee &e) { return e.salary; });
}
void stable_by_age_descending(Span<Employee> s) {
    srt::stable_sort(s, srt::by_descending([](const Employee &e) { return e.age; }));
}

double median(Span<double> s) {
    size_t k = s.size() / 2;
    srt::nth_element(s, k, srt::Less());
    return s[k];
}

// Ranks every value (1 = smallest) without moving the input.
void ranks(Span<float> values, Span<uint32_t> out) {
    srt::Scratch<uint32_t> order(values.size());
    for (size_t i = 0; i < values.size(); ++i) order[i] = static_cast<uint32_t>(i);
    srt::sort(order.span(), srt::by([&](uint32_t i) { return values[i]; }));
    for (size_t i = 0; i < values.size(); ++i) out[order[i]] = static_cast<uint32_t>(i + 1);
}

size_t common_values(Span<int32_t> a, Span<int32_t> b, int32_t *out) {
    srt::radix_sort(a);
    srt::sort(b);
    return srt::intersect(a.first(srt::unique(a, srt::Less())), b.first(srt::unique(b, srt::Less())), out, srt::Less());
}

class Random {
    uint64_t s_ = 88172645463325252ull;

public:
    uint32_t next() {
        s_ ^= s_ << 13;
        s_ ^= s_ >> 7;
        s_ ^= s_ << 17;
        return static_cast<uint32_t>(s_ >> 16);
    }
    int below(int n) { return static_cast<int>(next() % static_cast<uint32_t>(n)); }
};

static void hire(Span<Employee> staff, Random &rnd) {
    uint32_t seq = 0;
    for (Employee &e : staff) {
        memset(e.name, 0, sizeof e.name);
        for (int i = 0; i < 3; ++i) e.name[i] = static_cast<char>('a' + rnd.below(5));
        e.age = 20 + rnd.below(30);
        e.salary = static_cast<float>(rnd.below(20000)) / 8 - 500;
        e.seq = seq++;
    }
}

static int check_records() {
    Employee staff[300];
    Random rnd;
    hire(staff, rnd);
    auto age = [](const Employee &e) { return e.age; };
    sort_by_age_then_name(staff);
    if (!srt::is_sorted(Span<Employee>(staff), srt::then(srt::by(age), ByName()))) return 1;
    if (staff[srt::lower_bound(Span<Employee>(staff), 35, age)].age < 35) return 2;
    sort_by_salary(staff);
    if (!srt::is_sorted(Span<Employee>(staff), srt::by([](const Employee &e) { return e.salary; }))) return 3;
    srt::heap_sort(Span<Employee>(staff), srt::by([](const Employee &e) { return e.seq; }));
    if (staff[0].seq != 0 || staff[299].seq != 299) return 4;
    stable_by_age_descending(staff);
    for (int i = 1; i < 300; ++i)
        if (staff[i - 1].age < staff[i].age || (staff[i - 1].age == staff[i].age && staff[i - 1].seq > staff[i].seq)) return 5;
    return 0;
}

static int check_numbers() {
    Random rnd;
    int32_t a[500], b[500], both[500];
    double d[501];
    uint64_t wide[100];
    for (int i = 0; i < 500; ++i) {
        a[i] = rnd.below(1000) - 500;
        b[i] = 2 * rnd.below(500) - 400;
        d[i] = (i * 77) % 501;
    }
    d[500] = (500 * 77) % 501;
    for (uint64_t &w : wide) w = static_cast<uint64_t>(rnd.next()) << 32 | rnd.next();
    if (median(d) != 250) return 1;
    srt::radix_sort(Span<uint64_t>(wide));
    if (!srt::is_sorted(Span<uint64_t>(wide), srt::Less())) return 2;
    size_t n = common_values(a, b, both);
    if (n < 50 || !srt::is_sorted(Span<int32_t>(both, n), srt::Less())) return 3;
    for (size_t i = 0; i < n; ++i)
        if (both[i] % 2 || both[i] < -400 || both[i] >= 500) return 4;
    size_t few = 0, many = 0;
    srt::stable_sort(Span<double>(d), srt::Less());
    srt::stable_sort(Span<double>(d), srt::Counting<srt::Less>(srt::Less(), &few));
    srt::sort(Span<double>(d), srt::Counting<srt::Greater>(srt::Greater(), &many));
    if (few > 501 || many < 501 || many > 20000 || d[0] != 500 || d[500] != 0) return 5;
    return 0;
}

extern "C" int sorting_selftest() {
    if (int r = check_records()) return r;
    if (int r = check_numbers()) return 10 + r;
    float v[] = {3.5f, -1, 0, 12, -7.25f};
    uint32_t rank[5];
    ranks(v, rank);
    const uint32_t want[] = {4, 2, 3, 5, 1};
    return memcmp(rank, want, sizeof want) == 0 ? 0 : 20;
}
