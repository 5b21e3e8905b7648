// Two-way binary serialization: one visit() per struct drives writing, reading, sizing, hashing and a JSON-like dump.
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

inline void *operator new(size_t, void *p) noexcept { return p; }

namespace ser {

template <class T> struct is_signed { static constexpr bool value = T(-1) < T(0); };
template <class T> T &&move(T &v) { return static_cast<T &&>(v); }

template <class T> class List {
    T *p_ = nullptr;
    size_t n_ = 0, cap_ = 0;

public:
    List() = default;
    List(const List &o) {
        for (const T &v : o) push(v);
    }
    List &operator=(List o) { swap(o); return *this; }
    ~List() { clear(); free(p_); }
    void swap(List &o) {
        List *a = this, *b = &o;
        unsigned char t[sizeof(List)];
        memcpy(t, static_cast<void *>(a), sizeof t);
        memcpy(static_cast<void *>(a), static_cast<void *>(b), sizeof t);
        memcpy(static_cast<void *>(b), t, sizeof t);
    }
    void clear() {
        while (n_) p_[--n_].~T();
    }
    T &push(const T &v) {
        if (n_ == cap_) {
            size_t cap = cap_ ? cap_ * 2 : 8;
            T *fresh = static_cast<T *>(malloc(cap * sizeof(T)));
            if (!fresh) abort();
            for (size_t i = 0; i < n_; ++i) {
                new (fresh + i) T(move(p_[i]));
                p_[i].~T();
            }
            free(p_);
            p_ = fresh;
            cap_ = cap;
        }
        return *new (p_ + n_++) T(v);
    }
    size_t size() const { return n_; }
    T *begin() { return p_; }
    T *end() { return p_ + n_; }
    const T *begin() const { return p_; }
    const T *end() const { return p_ + n_; }
    T &operator[](size_t i) { return p_[i]; }
    const T &operator[](size_t i) const { return p_[i]; }
    friend bool operator==(const List &a, const List &b) {
        bool eq = a.n_ == b.n_;
        for (size_t i = 0; eq && i < a.n_; ++i) eq = a[i] == b[i];
        return eq;
    }
};

using Bytes = List<uint8_t>;

class Text {
    List<char> c_;

public:
    Text() = default;
    Text(const char *s) {
        for (; *s; ++s) c_.push(*s);
    }
    List<char> &chars() { return c_; }
    size_t size() const { return c_.size(); }
    const char *data() const { return c_.begin(); }
    friend bool operator==(const Text &a, const Text &b) { return a.c_ == b.c_; }
};

template <class T> struct Maybe {
    bool set = false;
    T value{};
    friend bool operator==(const Maybe &a, const Maybe &b) { return a.set == b.set && (!a.set || a.value == b.value); }
};

inline uint64_t zigzag(int64_t v) { return static_cast<uint64_t>(v) << 1 ^ static_cast<uint64_t>(v >> 63); }
inline int64_t unzigzag(uint64_t v) { return static_cast<int64_t>(v >> 1) ^ -static_cast<int64_t>(v & 1); }
template <class T> uint64_t to_wire(T v) {
    if constexpr (is_signed<T>::value) return zigzag(v);
    else return v;
}
template <class T> bool from_wire(uint64_t w, T &out) {
    if constexpr (is_signed<T>::value) {
        int64_t v = unzigzag(w);
        out = static_cast<T>(v);
        return static_cast<int64_t>(out) == v;
    } else {
        out = static_cast<T>(w);
        return out == w;
    }
}

// Derived archives provide number(), real(), raw() and length(); the base turns every field type into these.
template <class Self> class Archive {
protected:
    Self &self() { return static_cast<Self &>(*this); }
    void put(bool &v) {
        uint8_t b = v;
        self().number(b);
        v = b != 0;
    }
    void put(uint8_t &v) { self().number(v); }
    void put(int16_t &v) { self().number(v); }
    void put(int32_t &v) { self().number(v); }
    void put(uint32_t &v) { self().number(v); }
    void put(int64_t &v) { self().number(v); }
    void put(uint64_t &v) { self().number(v); }
    void put(double &v) { self().real(v); }
    void put(Text &t) {
        self().length(t.chars());
        for (char &c : t.chars()) self().raw(c);
    }
    template <class T> void put(List<T> &l) {
        self().length(l);
        for (T &v : l) put(v);
    }
    template <class T> void put(Maybe<T> &m) {
        put(m.set);
        if (m.set) put(m.value);
    }
    template <class T, size_t N> void put(T (&a)[N]) {
        for (T &v : a) put(v);
    }
    template <class T> auto put(T &v) -> decltype(v.visit(self())) {
        self().open();
        v.visit(self());
        self().close();
    }

public:
    template <class T> Self &field(const char *name, T &v) {
        self().name(name);
        put(v);
        return self();
    }
    template <class T> Self &operator&(T &v) { return field("", v); }
    void name(const char *) {}
    void open() {}
    void close() {}
};

class Writer : public Archive<Writer> {
    Bytes &out_;

public:
    explicit Writer(Bytes &out) : out_(out) {}
    void byte(uint8_t b) { out_.push(b); }
    void varint(uint64_t v) {
        for (; v > 127; v >>= 7) byte(static_cast<uint8_t>(v | 128));
        byte(static_cast<uint8_t>(v));
    }
    template <class T> void number(T &v) { varint(to_wire(v)); }
    void real(double &v) {
        uint64_t bits;
        memcpy(&bits, &v, sizeof bits);
        for (int i = 0; i < 64; i += 8) byte(static_cast<uint8_t>(bits >> i));
    }
    void raw(char &c) { byte(static_cast<uint8_t>(c)); }
    template <class T> void length(List<T> &l) { varint(l.size()); }
};

class Sizer : public Archive<Sizer> {
    size_t n_ = 0;

public:
    size_t total() const { return n_; }
    void varint(uint64_t v) {
        do ++n_;
        while (v >>= 7);
    }
    template <class T> void number(T &v) { varint(to_wire(v)); }
    void real(double &) { n_ += 8; }
    void raw(char &) { ++n_; }
    template <class T> void length(List<T> &l) { varint(l.size()); }
};

class Hasher : public Archive<Hasher> {
    uint64_t h_ = 14695981039346656037ull;

public:
    uint64_t value() const { return h_; }
    void mix(uint64_t v) { h_ = (h_ ^ v) * 1099511628211ull; h_ ^= h_ >> 32; }
    template <class T> void number(T &v) { mix(to_wire(v)); }
    void real(double &v) {
        uint64_t bits;
        memcpy(&bits, &v, sizeof bits);
        mix(bits);
    }
    void raw(char &c) { mix(static_cast<uint8_t>(c)); }
    template <class T> void length(List<T> &l) { mix(l.size()); }
};

class Reader : public Archive<Reader> {
    const uint8_t *cur_, *end_;
    bool ok_ = true;
    int depth_ = 0;

    size_t left() const { return static_cast<size_t>(end_ - cur_); }
    void fail() { ok_ = false; cur_ = end_; }
    uint8_t byte() {
        if (cur_ == end_) fail();
        return ok_ ? *cur_++ : 0;
    }
    uint64_t varint() {
        uint64_t v = 0;
        for (int shift = 0; shift < 64; shift += 7) {
            uint8_t b = byte();
            v |= static_cast<uint64_t>(b & 127) << shift;
            if (b < 128) return v;
        }
        fail();
        return 0;
    }

public:
    explicit Reader(const Bytes &b) : cur_(b.begin()), end_(b.end()) {}
    bool finished() const { return ok_ && cur_ == end_; }
    template <class T> void number(T &v) {
        if (!from_wire(varint(), v)) fail();
    }
    void real(double &v) {
        uint64_t bits = 0;
        for (int i = 0; i < 64; i += 8) bits |= static_cast<uint64_t>(byte()) << i;
        memcpy(&v, &bits, sizeof v);
    }
    void raw(char &c) { c = static_cast<char>(byte()); }
    // Every element takes at least one byte, which bounds hostile lengths.
    template <class T> void length(List<T> &l) {
        uint64_t n = varint();
        l.clear();
        if (n > left()) return fail();
        while (l.size() < n) l.push(T());
    }
    void open() {
        if (++depth_ > 64) fail();
    }
    void close() { --depth_; }
};

class Dumper : public Archive<Dumper> {
    Text &out_;

    void text(const char *s) {
        for (; *s; ++s) out_.chars().push(*s);
    }
    template <class T> void print(const char *format, T v) {
        char buf[40];
        snprintf(buf, sizeof buf, format, v);
        text(buf);
    }

public:
    explicit Dumper(Text &out) : out_(out) {}
    void name(const char *n) { text(n); text(*n ? ":" : ""); }
    void open() { text("{"); }
    void close() { text("} "); }
    template <class T> void number(T &v) { print(is_signed<T>::value ? "%lld " : "%llu ", static_cast<long long>(v)); }
    void real(double &v) { print("%.6g ", v); }
    void raw(char &c) { out_.chars().push(c); }
    template <class T> void length(List<T> &l) { print("#%u ", static_cast<unsigned>(l.size())); }
};

template <class T> Bytes save(T &v) {
    Bytes out;
    Writer w(out);
    w & v;
    return out;
}
template <class T> bool load(const Bytes &b, T &v) {
    Reader r(b);
    r & v;
    return r.finished();
}
template <class T> size_t size_of(T &v) {
    Sizer s;
    s & v;
    return s.total();
}
template <class T> uint64_t digest(T &v) {
    Hasher h;
    h & v;
    return h.value();
}
template <class T> Text dump(T &v) {
    Text out;
    Dumper d(out);
    d & v;
    return out;
}

} // namespace ser

using namespace ser;

struct Color {
    uint8_t r = 0, g = 0, b = 0;
    template <class A> void visit(A &a) { a.field("r", r).field("g", g).field("b", b); }
    bool operator==(const Color &o) const { return r == o.r && g == o.g && b == o.b; }
};

struct Item {
    Text name;
    uint32_t count = 0;
    Maybe<double> weight;
    Maybe<Color> tint;
    template <class A> void visit(A &a) { a.field("name", name).field("count", count).field("weight", weight).field("tint", tint); }
    bool operator==(const Item &o) const { return name == o.name && count == o.count && weight == o.weight && tint == o.tint; }
};

struct Player {
    uint64_t id = 0;
    Text nick;
    int32_t position[3] = {};
    int16_t level = 0;
    bool online = false;
    List<Item> bag;
    template <class A> void visit(A &a) { a.field("id", id).field("nick", nick).field("position", position).field("level", level).field("online", online).field("bag", bag); }
    bool operator==(const Player &o) const {
        return id == o.id && nick == o.nick && memcmp(position, o.position, sizeof position) == 0 && level == o.level && online == o.online && bag == o.bag;
    }
};

struct Tree {
    int64_t key = 0;
    List<Tree> kids;
    template <class A> void visit(A &a) { a.field("key", key).field("kids", kids); }
    bool operator==(const Tree &o) const { return key == o.key && kids == o.kids; }
};

Bytes save_player(Player &p) { return save(p); }
bool load_player(const Bytes &b, Player &p) { return load(b, p); }
uint64_t player_digest(Player &p) { return digest(p); }

Tree make_tree(int64_t key, int depth) {
    Tree t;
    t.key = key;
    for (int i = 0; i < depth; ++i) t.kids.push(make_tree(key * -3 + i, depth - 1));
    return t;
}

template <class T> bool round_trip(T &v) {
    Bytes b = save(v);
    T back;
    return size_of(v) == b.size() && load(b, back) && back == v && digest(back) == digest(v);
}

// Every strict prefix must be rejected, and no single-byte change may crash the reader.
template <class T> bool survives_damage(T &v) {
    Bytes full = save(v), cut;
    for (uint8_t b : full) {
        T scratch;
        if (load(cut, scratch)) return false;
        cut.push(b);
    }
    for (size_t i = 0; i < full.size(); ++i) {
        T scratch;
        full[i] ^= 0x85;
        load(full, scratch);
        full[i] ^= 0x85;
    }
    return true;
}

extern "C" int serializer_selftest() {
    Player p;
    p.id = 0xfeedfacecafeull;
    p.nick = "ada";
    p.position[1] = -70000;
    p.position[2] = INT_MAX;
    p.level = -32768;
    p.online = true;
    Item sword, gem;
    sword.name = "sword";
    sword.count = 1;
    sword.weight.set = true;
    sword.weight.value = 3.25;
    gem.name = "gem";
    gem.count = 300;
    gem.tint.set = true;
    gem.tint.value.g = 200;
    p.bag.push(sword);
    p.bag.push(gem);
    if (!round_trip(p) || !survives_damage(p)) return 1;
    Player other(p);
    if (player_digest(other) != player_digest(p)) return 2;
    other.bag[1].tint.value.b ^= 1;
    if (other == p || player_digest(other) == player_digest(p)) return 3;
    Tree t = make_tree(1, 4);
    if (!round_trip(t) || !survives_damage(t)) return 4;
    const int64_t edges[] = {0, -1, 1, 63, -64, 64, INT64_MAX, INT64_MIN};
    List<int64_t> numbers;
    for (int64_t e : edges) numbers.push(e);
    if (!round_trip(numbers) || size_of(numbers) != 1 + 5 + 2 + 20) return 5;
    if (!(dump(gem) == "{name:#3 gemcount:300 weight:0 tint:1 {r:0 g:200 b:0 } } ")) return 6;
    Bytes wide = save(p.id);
    int16_t narrow = 0;
    return load(wide, narrow) || load_player(save(t), other) || save_player(p).size() != 54 ? 7 : 0;
}
