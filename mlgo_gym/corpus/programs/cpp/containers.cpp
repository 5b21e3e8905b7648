// A small container library: growable array, open-addressing map, ordered set, and algorithms over them.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

inline void *operator new(size_t, void *p) noexcept { return p; }

namespace ct {

template <class T> struct remove_ref { using type = T; };
template <class T> struct remove_ref<T &> { using type = T; };
template <class T> struct remove_ref<T &&> { using type = T; };
template <class T> typename remove_ref<T>::type &&move(T &&v) { return static_cast<typename remove_ref<T>::type &&>(v); }
template <class T> T &&forward(typename remove_ref<T>::type &v) { return static_cast<T &&>(v); }

template <class T> void swap(T &a, T &b) {
    T tmp(move(a));
    a = move(b);
    b = move(tmp);
}

struct Less {
    template <class A, class B> bool operator()(const A &a, const B &b) const { return a < b; }
};

template <class T> class Vector {
    T *data_ = nullptr;
    size_t size_ = 0, cap_ = 0;

    void reallocate(size_t cap) {
        T *fresh = static_cast<T *>(malloc(cap * sizeof(T)));
        if (!fresh) abort();
        for (size_t i = 0; i < size_; ++i) {
            new (fresh + i) T(move(data_[i]));
            data_[i].~T();
        }
        free(data_);
        data_ = fresh;
        cap_ = cap;
    }
    void grow() { reallocate(cap_ ? cap_ * 2 : 4); }

public:
    using value_type = T;
    Vector() = default;
    Vector(const Vector &o) {
        reserve(o.size_);
        for (const T &v : o) push_back(v);
    }
    Vector(Vector &&o) : data_(o.data_), size_(o.size_), cap_(o.cap_) { o.release(); }
    Vector &operator=(Vector o) {
        exchange(o);
        return *this;
    }
    ~Vector() {
        clear();
        free(data_);
    }
    void release() {
        data_ = nullptr;
        size_ = cap_ = 0;
    }
    void exchange(Vector &o) {
        swap(data_, o.data_);
        swap(size_, o.size_);
        swap(cap_, o.cap_);
    }
    size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    T *begin() { return data_; }
    T *end() { return data_ + size_; }
    const T *begin() const { return data_; }
    const T *end() const { return data_ + size_; }
    T &operator[](size_t i) { return data_[i]; }
    const T &operator[](size_t i) const { return data_[i]; }
    T &front() { return data_[0]; }
    T &back() { return data_[size_ - 1]; }
    void reserve(size_t n) {
        if (n > cap_) reallocate(n);
    }
    template <class... A> T &emplace_back(A &&...args) {
        if (size_ == cap_) grow();
        return *new (data_ + size_++) T(forward<A>(args)...);
    }
    void push_back(const T &v) {
        T copy(v);
        emplace_back(move(copy));
    }
    void pop_back() { data_[--size_].~T(); }
    void clear() {
        while (size_) pop_back();
    }
    void resize(size_t n) {
        reserve(n);
        while (size_ > n) pop_back();
        while (size_ < n) emplace_back();
    }
    T *insert(size_t at, const T &v) {
        push_back(v);
        for (size_t i = size_ - 1; i > at; --i) swap(data_[i], data_[i - 1]);
        return data_ + at;
    }
    void erase(size_t at) {
        for (size_t i = at + 1; i < size_; ++i) data_[i - 1] = move(data_[i]);
        pop_back();
    }
};

// Owned, NUL-terminated name used as a non-trivial key type.
class Name {
    char *text_;

    static char *dup(const char *s) {
        size_t n = strlen(s) + 1;
        char *p = static_cast<char *>(malloc(n));
        if (!p) abort();
        memcpy(p, s, n);
        return p;
    }

public:
    Name() : text_(nullptr) {}
    Name(const char *s) : text_(dup(s)) {}
    Name(const Name &o) : text_(o.text_ ? dup(o.text_) : nullptr) {}
    Name(Name &&o) : text_(o.text_) { o.text_ = nullptr; }
    Name &operator=(Name o) {
        swap(text_, o.text_);
        return *this;
    }
    ~Name() { free(text_); }
    const char *c_str() const { return text_ ? text_ : ""; }
    size_t length() const { return strlen(c_str()); }
    friend bool operator==(const Name &a, const Name &b) { return strcmp(a.c_str(), b.c_str()) == 0; }
    friend bool operator<(const Name &a, const Name &b) { return strcmp(a.c_str(), b.c_str()) < 0; }
};

inline uint64_t mix(uint64_t h) {
    h ^= h >> 31;
    h *= 0x9E3779B97F4A7C15ull;
    return h ^ (h >> 29);
}
inline uint64_t hash_of(uint64_t v) { return mix(v + 0x1234567); }
inline uint64_t hash_of(int v) { return hash_of(static_cast<uint64_t>(v)); }
inline uint64_t hash_of(const Name &n) {
    uint64_t h = 1469598103934665603ull;
    for (const char *p = n.c_str(); *p; ++p) h = (h ^ static_cast<unsigned char>(*p)) * 1099511628211ull;
    return mix(h);
}

// Linear probing with backward-shift deletion.
template <class K, class V> class HashMap {
    struct Slot {
        K key{};
        V value{};
        bool used = false;
    };
    Vector<Slot> slots_;
    size_t count_ = 0;

    size_t mask() const { return slots_.size() - 1; }
    size_t home(const K &k) const { return hash_of(k) & mask(); }
    size_t next(size_t i) const { return (i + 1) & mask(); }
    bool crowded() const { return (count_ + 1) * 4 > slots_.size() * 3; }

    size_t locate(const K &k) const {
        size_t i = home(k);
        while (slots_[i].used && !(slots_[i].key == k)) i = next(i);
        return i;
    }
    void rehash(size_t n) {
        Vector<Slot> old;
        old.exchange(slots_);
        slots_.resize(n);
        count_ = 0;
        for (Slot &s : old)
            if (s.used) (*this)[s.key] = move(s.value);
    }

public:
    size_t size() const { return count_; }
    bool contains(const K &k) const { return find(k) != nullptr; }
    const V *find(const K &k) const {
        if (slots_.empty()) return nullptr;
        const Slot &s = slots_[locate(k)];
        return s.used ? &s.value : nullptr;
    }
    V &operator[](const K &k) {
        if (crowded()) rehash(slots_.empty() ? 8 : slots_.size() * 2);
        Slot &s = slots_[locate(k)];
        if (!s.used) {
            s.key = k;
            s.used = true;
            ++count_;
        }
        return s.value;
    }
    V get_or(const K &k, const V &fallback) const {
        const V *v = find(k);
        return v ? *v : fallback;
    }
    bool erase(const K &k) {
        if (slots_.empty()) return false;
        size_t hole = locate(k);
        if (!slots_[hole].used) return false;
        for (size_t i = next(hole); slots_[i].used; i = next(i)) {
            size_t want = home(slots_[i].key);
            if (((i - want) & mask()) >= ((i - hole) & mask())) {
                swap(slots_[hole], slots_[i]);
                hole = i;
            }
        }
        slots_[hole] = Slot();
        --count_;
        return true;
    }
    template <class F> void each(F &&f) const {
        for (const Slot &s : slots_)
            if (s.used) f(s.key, s.value);
    }
};

// Sorted-vector set.
template <class T, class Cmp = Less> class FlatSet {
    Vector<T> items_;
    Cmp cmp_;

    bool same(const T &a, const T &b) const { return !cmp_(a, b) && !cmp_(b, a); }

public:
    size_t lower(const T &v) const {
        size_t lo = 0, n = items_.size();
        while (n) {
            size_t half = n / 2;
            if (cmp_(items_[lo + half], v)) {
                lo += half + 1;
                n -= half + 1;
            } else {
                n = half;
            }
        }
        return lo;
    }
    bool contains(const T &v) const {
        size_t i = lower(v);
        return i < items_.size() && same(items_[i], v);
    }
    bool insert(const T &v) {
        if (contains(v)) return false;
        items_.insert(lower(v), v);
        return true;
    }
    bool erase(const T &v) {
        if (!contains(v)) return false;
        items_.erase(lower(v));
        return true;
    }
    size_t size() const { return items_.size(); }
    const T *begin() const { return items_.begin(); }
    const T *end() const { return items_.end(); }

    FlatSet intersect(const FlatSet &o) const {
        FlatSet out;
        for (const T &v : items_)
            if (o.contains(v)) out.items_.push_back(v);
        return out;
    }
    FlatSet unite(const FlatSet &o) const {
        FlatSet out(*this);
        for (const T &v : o) out.insert(v);
        return out;
    }
};

template <class C, class P> size_t count_if(const C &c, P pred) {
    size_t n = 0;
    for (const auto &v : c) n += pred(v) ? 1 : 0;
    return n;
}
template <class C, class R, class F> R fold(const C &c, R acc, F f) {
    for (const auto &v : c) acc = f(acc, v);
    return acc;
}
template <class C, class P> void remove_if(C &c, P pred) {
    size_t keep = 0;
    for (size_t i = 0; i < c.size(); ++i) {
        if (pred(c[i])) continue;
        if (keep != i) swap(c[keep], c[i]);
        ++keep;
    }
    while (c.size() > keep) c.pop_back();
}
template <class C, class Cmp = Less> void insertion_sort(C &c, Cmp cmp = Cmp()) {
    for (size_t i = 1; i < c.size(); ++i)
        for (size_t j = i; j > 0 && cmp(c[j], c[j - 1]); --j) swap(c[j], c[j - 1]);
}
template <class C> void dedupe_sorted(C &c) {
    size_t w = 0;
    for (size_t i = 0; i < c.size(); ++i)
        if (w == 0 || !(c[i] == c[w - 1])) swap(c[w++], c[i]);
    while (c.size() > w) c.pop_back();
}

} // namespace ct

using ct::FlatSet;
using ct::HashMap;
using ct::Name;
using ct::Vector;

// Splits text into lower-case words and counts them.
void count_words(const char *text, HashMap<Name, int> &out) {
    char word[32];
    size_t n = 0;
    for (const char *p = text;; ++p) {
        char c = *p;
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
        if (c >= 'a' && c <= 'z') {
            if (n + 1 < sizeof word) word[n++] = c;
        } else if (n) {
            word[n] = 0;
            ++out[Name(word)];
            n = 0;
        }
        if (!*p) break;
    }
}

struct WordCount {
    Name word;
    int count = 0;
    WordCount() = default;
    WordCount(const Name &w, int c) : word(w), count(c) {}
};

Vector<WordCount> ranking(const HashMap<Name, int> &counts) {
    Vector<WordCount> out;
    counts.each([&](const Name &w, int c) { out.emplace_back(w, c); });
    ct::insertion_sort(out, [](const WordCount &a, const WordCount &b) { return a.count != b.count ? a.count > b.count : a.word < b.word; });
    return out;
}

// Groups record ids by the remainder of their value.
HashMap<int, Vector<int>> group_by_mod(const Vector<int> &values, int m) {
    HashMap<int, Vector<int>> groups;
    for (int v : values) groups[v % m].push_back(v);
    return groups;
}

FlatSet<int> primes_below(int n) {
    FlatSet<int> out;
    for (int i = 2; i < n; ++i)
        if (ct::count_if(out, [i](int p) { return i % p == 0; }) == 0) out.insert(i);
    return out;
}

uint64_t longest_name(const Vector<Name> &names) {
    return ct::fold(names, size_t(0), [](size_t best, const Name &n) { return n.length() > best ? n.length() : best; });
}

static int check_words() {
    HashMap<Name, int> counts;
    count_words("the quick fox and the lazy dog and the end", counts);
    if (counts.size() != 7 || counts.get_or("the", 0) != 3 || counts.get_or("cat", -1) != -1) return 1;
    Vector<WordCount> rank = ranking(counts);
    if (!(rank[0].word == Name("the")) || !(rank[1].word == Name("and"))) return 2;
    if (!counts.erase("and") || counts.erase("and") || counts.size() != 6 || !counts.contains("fox")) return 3;
    return 0;
}

static int check_numbers() {
    Vector<int> v;
    for (int i = 0; i < 200; ++i) v.push_back((i * 37) % 101);
    ct::insertion_sort(v);
    ct::dedupe_sorted(v);
    if (v.size() != 101 || v.front() != 0 || v.back() != 100) return 1;
    HashMap<int, Vector<int>> g = group_by_mod(v, 7);
    if (g.size() != 7 || g[3].size() != 14 || g[0][1] != 7) return 2;
    ct::remove_if(v, [](int x) { return x % 3 != 0; });
    if (v.size() != 34 || ct::fold(v, 0, [](int a, int b) { return a + b; }) != 1683) return 3;
    HashMap<uint64_t, int> big;
    for (uint64_t i = 0; i < 500; ++i) big[i * i] = static_cast<int>(i);
    for (uint64_t i = 0; i < 500; i += 2) big.erase(i * i);
    if (big.size() != 250 || big.contains(16) || big.get_or(81, 0) != 9) return 4;
    return 0;
}

static int check_sets() {
    FlatSet<int> p = primes_below(60);
    if (p.size() != 17 || !p.contains(59) || p.contains(57)) return 1;
    FlatSet<int> odd;
    for (int i = 1; i < 20; i += 2) odd.insert(i);
    if (p.intersect(odd).size() != 7 || p.unite(odd).size() != 20) return 2;
    if (!odd.erase(9) || odd.erase(9) || odd.size() != 9) return 3;
    FlatSet<Name> names;
    Vector<Name> list;
    const char *fruit[] = {"pear", "apple", "fig", "apple", "banana"};
    for (const char *s : fruit) {
        list.push_back(s);
        names.insert(s);
    }
    if (names.size() != 4 || !(*names.begin() == Name("apple")) || longest_name(list) != 6) return 4;
    Vector<Name> copy(list);
    copy.erase(1);
    if (copy.size() != 4 || list.size() != 5 || !(copy[1] == Name("fig"))) return 5;
    return 0;
}

extern "C" int containers_selftest() {
    if (int r = check_words()) return r;
    if (int r = check_numbers()) return 10 + r;
    if (int r = check_sets()) return 20 + r;
    return 0;
}
