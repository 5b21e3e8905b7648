// String with small-buffer storage, plus splitting, joining, searching, case mapping and a type-safe formatter.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

namespace text {

class View {
    const char *data_ = "";
    size_t size_ = 0;

public:
    static constexpr size_t npos = ~size_t(0);
    View() = default;
    View(const char *s) : data_(s), size_(strlen(s)) {}
    View(const char *s, size_t n) : data_(s), size_(n) {}
    const char *data() const { return data_; }
    const char *begin() const { return data_; }
    const char *end() const { return data_ + size_; }
    size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    char operator[](size_t i) const { return data_[i]; }
    char front() const { return data_[0]; }
    char back() const { return data_[size_ - 1]; }
    View drop(size_t n) const { return n > size_ ? View() : View(data_ + n, size_ - n); }
    View take(size_t n) const { return View(data_, n < size_ ? n : size_); }
    View sub(size_t at, size_t n) const { return drop(at).take(n); }
    int compare(const View &o) const {
        size_t n = size_ < o.size_ ? size_ : o.size_;
        int r = n ? memcmp(data_, o.data_, n) : 0;
        return r ? r : (size_ > o.size_) - (size_ < o.size_);
    }
    bool starts_with(const View &p) const { return take(p.size_).compare(p) == 0; }
    bool ends_with(const View &p) const { return size_ >= p.size_ && drop(size_ - p.size_).compare(p) == 0; }
    size_t find(char c, size_t from = 0) const {
        for (size_t i = from; i < size_; ++i)
            if (data_[i] == c) return i;
        return npos;
    }
    size_t find(const View &needle, size_t from = 0) const {
        for (size_t i = from; i + needle.size() <= size_; ++i)
            if (drop(i).starts_with(needle)) return i;
        return npos;
    }
    template <class P> View trim(P blank) const {
        View v = *this;
        while (!v.empty() && blank(v.front())) v = v.drop(1);
        while (!v.empty() && blank(v.back())) v = v.take(v.size() - 1);
        return v;
    }
};
inline bool operator==(const View &a, const View &b) { return a.compare(b) == 0; }
inline bool operator!=(const View &a, const View &b) { return !(a == b); }
inline bool operator<(const View &a, const View &b) { return a.compare(b) < 0; }

inline bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
inline char to_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }
inline char to_upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; }

// Up to 22 characters are kept inline; tag_ holds the inline length, or kHeap.
class String {
    static constexpr size_t kInline = 23;
    static constexpr unsigned char kHeap = 0xff;
    struct Heap {
        char *ptr;
        size_t size, cap;
    };
    union {
        Heap heap_;
        char buf_[kInline + 1];
    };
    unsigned char tag_ = 0;

    bool on_heap() const { return tag_ == kHeap; }
    void set_size(size_t n) {
        if (on_heap()) heap_.size = n;
        else tag_ = static_cast<unsigned char>(n);
        data()[n] = 0;
    }
    void steal(String &o) {
        tag_ = o.tag_;
        memcpy(static_cast<void *>(buf_), o.buf_, sizeof buf_);
        o.tag_ = 0;
        o.buf_[0] = 0;
    }
    void drop() {
        if (on_heap()) free(heap_.ptr);
    }

public:
    String() { buf_[0] = 0; }
    String(const View &v) : String() { append(v); }
    String(const char *s) : String(View(s)) {}
    String(size_t n, char c) : String() { pad(n, c); }
    String(const String &o) : String(o.view()) {}
    String(String &&o) { steal(o); }
    String &operator=(const String &o) {
        if (this != &o) {
            clear();
            append(o.view());
        }
        return *this;
    }
    String &operator=(String &&o) {
        if (this != &o) {
            drop();
            steal(o);
        }
        return *this;
    }
    ~String() { drop(); }

    size_t size() const { return on_heap() ? heap_.size : tag_; }
    size_t capacity() const { return on_heap() ? heap_.cap : kInline - 1; }
    bool empty() const { return size() == 0; }
    bool is_small() const { return !on_heap(); }
    char *data() { return on_heap() ? heap_.ptr : buf_; }
    const char *c_str() const { return on_heap() ? heap_.ptr : buf_; }
    View view() const { return View(c_str(), size()); }
    operator View() const { return view(); }
    char *begin() { return data(); }
    char *end() { return data() + size(); }
    char &operator[](size_t i) { return data()[i]; }

    void reserve(size_t n) {
        if (n <= capacity()) return;
        size_t cap = capacity() * 2 > n ? capacity() * 2 : n;
        char *p = static_cast<char *>(malloc(cap + 1));
        if (!p) abort();
        size_t len = size();
        memcpy(p, c_str(), len + 1);
        drop();
        heap_.ptr = p;
        heap_.size = len;
        heap_.cap = cap;
        tag_ = kHeap;
    }
    void clear() { set_size(0); }
    String &append(const View &v) {
        size_t old = size();
        bool inside = v.data() >= c_str() && v.data() <= c_str() + old;
        size_t at = inside ? static_cast<size_t>(v.data() - c_str()) : 0;
        reserve(old + v.size());
        memmove(data() + old, inside ? c_str() + at : v.data(), v.size());
        set_size(old + v.size());
        return *this;
    }
    String &push(char c) { return append(View(&c, 1)); }
    String &pad(size_t n, char c) {
        reserve(size() + n);
        for (; n; --n) push(c);
        return *this;
    }
    String &operator+=(const View &v) { return append(v); }
    String &operator+=(char c) { return push(c); }
    void resize_down(size_t n) {
        if (n < size()) set_size(n);
    }
    void reverse() {
        for (char *a = begin(), *b = end(); a < b && a < --b; ++a) {
            char t = *a;
            *a = *b;
            *b = t;
        }
    }
    template <class F> String &map(F f) {
        for (char &c : *this) c = f(c);
        return *this;
    }
};
inline String operator+(String a, const View &b) {
    a += b;
    return a;
}
inline bool operator==(const String &a, const View &b) { return a.view() == b; }

// Lazily walks the pieces of a view between separators.
class Splitter {
    View rest_;
    char sep_;
    bool live_ = true;

public:
    Splitter(const View &v, char sep) : rest_(v), sep_(sep) {}
    bool next(View &piece) {
        if (!live_) return false;
        size_t at = rest_.find(sep_);
        live_ = at != View::npos;
        piece = rest_.take(at);
        if (live_) rest_ = rest_.drop(at + 1);
        return true;
    }
};

template <class F> int for_each_piece(const View &v, char sep, F f) {
    Splitter s(v, sep);
    View piece;
    int n = 0;
    for (; s.next(piece); ++n) f(piece);
    return n;
}

class Joiner {
    String out_;
    View glue_;
    bool first_ = true;

public:
    explicit Joiner(const View &glue) : glue_(glue) {}
    Joiner &add(const View &v) {
        if (!first_) out_ += glue_;
        first_ = false;
        out_ += v;
        return *this;
    }
    String take() { return static_cast<String &&>(out_); }
};

struct Spec {
    unsigned width = 0;
    char fill = ' ', align = '>', kind = 'd';
};

inline void put_unsigned(String &out, uint64_t v, unsigned base, bool upper) {
    String digits;
    do {
        unsigned d = static_cast<unsigned>(v % base);
        digits += static_cast<char>(d < 10 ? '0' + d : (upper ? 'A' : 'a') + d - 10);
        v /= base;
    } while (v);
    digits.reverse();
    out += digits;
}
inline unsigned base_of(char kind) { return kind == 'x' || kind == 'X' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 10; }

// Overloads of render() are the extension points of format().
inline void render(String &out, const Spec &s, uint64_t v) { put_unsigned(out, v, base_of(s.kind), s.kind == 'X'); }
inline void render(String &out, const Spec &s, unsigned v) { render(out, s, static_cast<uint64_t>(v)); }
inline void render(String &out, const Spec &s, int64_t v) {
    if (v < 0) out += '-';
    render(out, s, v < 0 ? 0 - static_cast<uint64_t>(v) : static_cast<uint64_t>(v));
}
inline void render(String &out, const Spec &s, int v) { render(out, s, static_cast<int64_t>(v)); }
inline void render(String &out, const Spec &, char c) { out += c; }
inline void render(String &out, const Spec &, bool b) { out += b ? "true" : "false"; }
inline void render(String &out, const Spec &, const View &v) { out += v; }
inline void render(String &out, const Spec &, const String &v) { out += v; }
inline void render(String &out, const Spec &, const char *v) { out += v; }
inline void render(String &out, const Spec &s, double v) {
    if (v < 0) {
        out += '-';
        v = -v;
    }
    uint64_t scaled = static_cast<uint64_t>(v * 1000 + 0.5);
    render(out, s, scaled / 1000);
    out += '.';
    String frac;
    render(frac, Spec(), scaled % 1000);
    out.pad(3 - frac.size(), '0');
    out += frac;
}

inline void put_aligned(String &out, const Spec &s, const View &body) {
    size_t gap = s.width > body.size() ? s.width - body.size() : 0;
    size_t before = s.align == '>' ? gap : s.align == '^' ? gap / 2 : 0;
    out.pad(before, s.fill);
    out += body;
    out.pad(gap - before, s.fill);
}

// {[fill](<|>|^)[width][kind]}
inline Spec parse_spec(View v) {
    Spec s;
    auto is_align = [](char c) { return c == '<' || c == '>' || c == '^'; };
    if (v.size() > 1 && is_align(v[1])) {
        s.fill = v[0];
        v = v.drop(1);
    }
    if (!v.empty() && is_align(v[0])) {
        s.align = v[0];
        v = v.drop(1);
    }
    for (; !v.empty() && is_digit(v[0]); v = v.drop(1)) s.width = s.width * 10 + static_cast<unsigned>(v[0] - '0');
    if (!v.empty()) s.kind = v[0];
    return s;
}

class Formatter {
    String &out_;
    View rest_;

    void copy_literal() {
        while (!rest_.empty() && rest_[0] != '{') {
            out_ += rest_[0];
            rest_ = rest_.drop(1);
        }
    }

public:
    Formatter(String &out, const View &pattern) : out_(out), rest_(pattern) {}
    template <class T> void arg(const T &v) {
        copy_literal();
        size_t close = rest_.find('}');
        if (close == View::npos) return;
        Spec s = parse_spec(rest_.sub(1, close - 1));
        rest_ = rest_.drop(close + 1);
        String body;
        render(body, s, v);
        put_aligned(out_, s, body);
    }
    void finish() { out_ += rest_; }
};

template <class... A> String format(const View &pattern, const A &...args) {
    String out;
    Formatter f(out, pattern);
    (f.arg(args), ...);
    f.finish();
    return out;
}

String replace_all(const View &v, const View &from, const View &to) {
    String out;
    size_t at = 0;
    for (size_t hit; (hit = v.find(from, at)) != View::npos; at = hit + from.size()) {
        out += v.sub(at, hit - at);
        out += to;
    }
    return out + v.drop(at);
}

bool parse_int(View v, int64_t &out) {
    v = v.trim(is_space);
    bool neg = v.starts_with("-");
    if (neg) v = v.drop(1);
    if (v.empty() || v.size() > 18) return false;
    int64_t acc = 0;
    for (char c : v) {
        if (!is_digit(c)) return false;
        acc = acc * 10 + (c - '0');
    }
    out = neg ? -acc : acc;
    return true;
}

// "some_field_name" -> "SomeFieldName"
String camel_case(const View &v) {
    String out;
    for_each_piece(v, '_', [&](const View &p) {
        if (!p.empty()) out += to_upper(p.front());
        for (char c : p.drop(1)) out += to_lower(c);
    });
    return out;
}

// Pads the columns of a comma-separated line to the given width.
String table_row(const View &csv, unsigned width) {
    Joiner row(" | ");
    for_each_piece(csv, ',', [&](const View &cell) {
        View t = cell.trim(is_space);
        int64_t number;
        Spec s;
        s.width = width;
        s.align = parse_int(t, number) ? '>' : '<';
        String padded;
        put_aligned(padded, s, t);
        row.add(padded);
    });
    return row.take();
}

} // namespace text

using namespace text;

extern "C" int small_string_selftest() {
    String a("short"), b(40, 'x');
    if (!a.is_small() || b.is_small() || b.size() != 40) return 1;
    String c = a;
    c += b;
    c += c;
    if (c.size() != 90 || !c.view().starts_with("shortx") || !c.view().ends_with("xx") || c.view().find("short", 1) != 45) return 2;
    String d(static_cast<String &&>(c));
    c = static_cast<String &&>(a);
    if (!(c == "short") || d.size() != 90 || !a.empty()) return 3;
    d.resize_down(7);
    d.reverse();
    if (!(d == "xxtrohs") || !(d.map(to_upper) == "XXTROHS")) return 4;
    if (!(format("{} is {>6} or {x} or {#^9X}!", "it", -42, 255u, 48879) == "it is    -42 or ff or ##BEEF###!")) return 5;
    if (!(format("[{<5}][{0>8b}] {} {} {}", true, 10, 3.14159, 'q', View("end")) == "[true ][00001010] 3.142 q end")) return 6;
    if (!(format("{} {o}", static_cast<int64_t>(-9000000000), static_cast<uint64_t>(64)) == "-9000000000 100")) return 7;
    if (!(replace_all("a--b--c", "--", "+") == "a+b+c") || !(replace_all("aaa", "b", "c") == "aaa")) return 8;
    if (!(camel_case("some_FIELD__name") == "SomeFieldName")) return 9;
    if (!(table_row("id, 17 ,total", 5) == "id    |    17 | total")) return 10;
    int64_t v = 0;
    if (!parse_int("  -120 ", v) || v != -120 || parse_int("12x", v) || parse_int("", v)) return 11;
    if (for_each_piece(",,", ',', [](const View &) {}) != 3 || !(View("ab") < View("abc")) || View("b") < View("abc")) return 12;
    String long_copy(b + " tail");
    return long_copy.size() == 45 && long_copy.view() != b.view() ? 0 : 13;
}
