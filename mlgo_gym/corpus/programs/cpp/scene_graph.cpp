// A 2D/3D scene graph: virtual nodes with cached world transforms, visitors for bounds, picking and statistics.
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

inline void *operator new(size_t, void *p) noexcept { return p; }

namespace scene {

struct Vec3 {
    float x = 0, y = 0, z = 0;
    Vec3() = default;
    Vec3(float a, float b, float c) : x(a), y(b), z(c) {}
    Vec3 operator+(const Vec3 &o) const { return Vec3(x + o.x, y + o.y, z + o.z); }
    Vec3 operator-(const Vec3 &o) const { return Vec3(x - o.x, y - o.y, z - o.z); }
    Vec3 operator*(float s) const { return Vec3(x * s, y * s, z * s); }
    Vec3 operator-() const { return *this * -1.0f; }
};
inline float dot(const Vec3 &a, const Vec3 &b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
inline float length(const Vec3 &v) { return sqrtf(dot(v, v)); }
inline float min2(float a, float b) { return a < b ? a : b; }
inline float max2(float a, float b) { return a > b ? a : b; }
inline Vec3 min3(const Vec3 &a, const Vec3 &b) { return Vec3(min2(a.x, b.x), min2(a.y, b.y), min2(a.z, b.z)); }
inline Vec3 max3(const Vec3 &a, const Vec3 &b) { return Vec3(max2(a.x, b.x), max2(a.y, b.y), max2(a.z, b.z)); }

// Row-major 3x4 affine matrix.
class Affine {
    Vec3 row_[3];
    Vec3 shift_;

public:
    Affine() : row_{Vec3(1, 0, 0), Vec3(0, 1, 0), Vec3(0, 0, 1)} {}
    Affine(const Vec3 &r0, const Vec3 &r1, const Vec3 &r2, const Vec3 &t) : row_{r0, r1, r2}, shift_(t) {}
    static Affine translate(const Vec3 &t) { return Affine(Vec3(1, 0, 0), Vec3(0, 1, 0), Vec3(0, 0, 1), t); }
    static Affine scale(const Vec3 &s) { return Affine(Vec3(s.x, 0, 0), Vec3(0, s.y, 0), Vec3(0, 0, s.z), Vec3()); }
    static Affine rotate_z(float a) {
        float c = cosf(a), s = sinf(a);
        return Affine(Vec3(c, -s, 0), Vec3(s, c, 0), Vec3(0, 0, 1), Vec3());
    }
    static Affine rotate_x(float a) {
        float c = cosf(a), s = sinf(a);
        return Affine(Vec3(1, 0, 0), Vec3(0, c, -s), Vec3(0, s, c), Vec3());
    }
    Vec3 column(float Vec3::*axis) const { return Vec3(row_[0].*axis, row_[1].*axis, row_[2].*axis); }
    const Vec3 &shift() const { return shift_; }
    Vec3 direction(const Vec3 &v) const { return Vec3(dot(row_[0], v), dot(row_[1], v), dot(row_[2], v)); }
    Vec3 point(const Vec3 &v) const { return direction(v) + shift_; }
    Affine operator*(const Affine &o) const {
        Vec3 c0 = o.column(&Vec3::x), c1 = o.column(&Vec3::y), c2 = o.column(&Vec3::z);
        Affine out;
        for (int i = 0; i < 3; ++i) out.row_[i] = Vec3(dot(row_[i], c0), dot(row_[i], c1), dot(row_[i], c2));
        out.shift_ = point(o.shift_);
        return out;
    }
};

class Box {
    Vec3 lo_{1e30f, 1e30f, 1e30f}, hi_{-1e30f, -1e30f, -1e30f};

public:
    Box() = default;
    Box(const Vec3 &lo, const Vec3 &hi) : lo_(lo), hi_(hi) {}
    bool empty() const { return lo_.x > hi_.x; }
    const Vec3 &lo() const { return lo_; }
    const Vec3 &hi() const { return hi_; }
    Vec3 extent() const { return empty() ? Vec3() : hi_ - lo_; }
    void add(const Vec3 &p) {
        lo_ = min3(lo_, p);
        hi_ = max3(hi_, p);
    }
    void add(const Box &b) {
        if (b.empty()) return;
        add(b.lo_);
        add(b.hi_);
    }
    Vec3 corner(int i) const { return Vec3(i & 1 ? hi_.x : lo_.x, i & 2 ? hi_.y : lo_.y, i & 4 ? hi_.z : lo_.z); }
    Box moved(const Affine &m) const {
        Box out;
        if (empty()) return out;
        for (int i = 0; i < 8; ++i) out.add(m.point(corner(i)));
        return out;
    }
    bool contains(const Vec3 &p) const {
        return p.x >= lo_.x && p.y >= lo_.y && p.z >= lo_.z && p.x <= hi_.x && p.y <= hi_.y && p.z <= hi_.z;
    }
};

class Group;
class Sphere;
class Cuboid;
class Mesh;

class Visitor {
public:
    virtual void enter(Group &) {}
    virtual void leave(Group &) {}
    virtual void visit(Sphere &) {}
    virtual void visit(Cuboid &) {}
    virtual void visit(Mesh &) {}

protected:
    ~Visitor() = default;
};

class Node {
    friend class Group;
    Group *parent_ = nullptr;
    Affine local_;
    mutable Affine world_;
    mutable bool stale_ = true;
    int id_;

protected:
    virtual void mark_stale() { stale_ = true; }

public:
    explicit Node(int id) : id_(id) {}
    Node(const Node &) = delete;
    Node &operator=(const Node &) = delete;
    virtual void destroy() = 0;
    virtual Box local_bounds() const = 0;
    virtual void accept(Visitor &v) = 0;
    virtual int triangle_count() const { return 0; }

    int id() const { return id_; }
    Group *parent() const { return parent_; }
    const Affine &local() const { return local_; }
    const Affine &world() const;
    void set_local(const Affine &m) {
        local_ = m;
        mark_stale();
    }
    void apply(const Affine &m) { set_local(m * local_); }
    void move_by(const Vec3 &d) { apply(Affine::translate(d)); }
    Vec3 position() const { return world().shift(); }
    Box world_bounds() const { return local_bounds().moved(world()); }

protected:
    ~Node() = default;
};

// Objects live in malloc memory; make and destroy pair up.
template <class T> class Allocated : public T {
public:
    using T::T;
    void destroy() override {
        this->Allocated::~Allocated();
        free(this);
    }
};

class Group : public Node {
    Node **kids_ = nullptr;
    size_t count_ = 0, cap_ = 0;

protected:
    void mark_stale() override {
        Node::mark_stale();
        for (Node *k : *this) k->mark_stale();
    }

public:
    using Node::Node;
    ~Group() {
        for (Node *k : *this) k->destroy();
        free(kids_);
    }
    Node **begin() const { return kids_; }
    Node **end() const { return kids_ + count_; }
    size_t size() const { return count_; }
    Node &child(size_t i) const { return *kids_[i]; }

    void adopt(Node *n) {
        if (count_ == cap_) {
            cap_ = cap_ ? cap_ * 2 : 4;
            kids_ = static_cast<Node **>(realloc(kids_, cap_ * sizeof(Node *)));
            if (!kids_) abort();
        }
        n->parent_ = this;
        n->mark_stale();
        kids_[count_++] = n;
    }
    Node *release(Node *n) {
        for (size_t i = 0; i < count_; ++i) {
            if (kids_[i] != n) continue;
            memmove(kids_ + i, kids_ + i + 1, (--count_ - i) * sizeof(Node *));
            n->parent_ = nullptr;
            n->mark_stale();
            return n;
        }
        return nullptr;
    }
    template <class T, class... A> Allocated<T> *make(A... args) {
        void *mem = malloc(sizeof(Allocated<T>));
        if (!mem) abort();
        auto *n = ::new (mem) Allocated<T>(args...);
        adopt(n);
        return n;
    }
    Box local_bounds() const override {
        Box b;
        for (Node *k : *this) b.add(k->local_bounds().moved(k->local()));
        return b;
    }
    void accept(Visitor &v) override {
        v.enter(*this);
        for (Node *k : *this) k->accept(v);
        v.leave(*this);
    }
    int triangle_count() const override {
        int n = 0;
        for (Node *k : *this) n += k->triangle_count();
        return n;
    }
};

const Affine &Node::world() const {
    if (stale_) {
        world_ = parent_ ? parent_->world() * local_ : local_;
        stale_ = false;
    }
    return world_;
}

class Sphere : public Node {
    float radius_;

public:
    Sphere(int id, float r) : Node(id), radius_(r) {}
    float radius() const { return radius_; }
    Box local_bounds() const override {
        Vec3 r(radius_, radius_, radius_);
        return Box(-r, r);
    }
    void accept(Visitor &v) override { v.visit(*this); }
    int triangle_count() const override { return 960; }
};

class Cuboid : public Node {
    Vec3 half_;

public:
    Cuboid(int id, Vec3 half) : Node(id), half_(half) {}
    float volume() const { return 8 * half_.x * half_.y * half_.z; }
    Box local_bounds() const override { return Box(-half_, half_); }
    void accept(Visitor &v) override { v.visit(*this); }
    int triangle_count() const override { return 12; }
};

class Mesh : public Node {
    static constexpr int kMax = 16;
    Vec3 points_[kMax];
    int count_ = 0;

public:
    using Node::Node;
    int size() const { return count_; }
    bool add(const Vec3 &p) {
        if (count_ == kMax) return false;
        points_[count_++] = p;
        return true;
    }
    const Vec3 &at(int i) const { return points_[i]; }
    Box local_bounds() const override {
        Box b;
        for (int i = 0; i < count_; ++i) b.add(points_[i]);
        return b;
    }
    void accept(Visitor &v) override { v.visit(*this); }
    int triangle_count() const override { return count_ > 2 ? count_ - 2 : 0; }
};

class Statistics final : public Visitor {
    int depth_ = 0;

public:
    int groups = 0, leaves = 0, deepest = 0;
    float volume = 0;
    void enter(Group &) override {
        ++groups;
        if (++depth_ > deepest) deepest = depth_;
    }
    void leave(Group &) override { --depth_; }
    void visit(Sphere &s) override { leaf(4.18879f * s.radius() * s.radius() * s.radius()); }
    void visit(Cuboid &c) override { leaf(c.volume()); }
    void visit(Mesh &) override { leaf(0); }

private:
    void leaf(float v) {
        ++leaves;
        volume += v;
    }
};

class PointPicker final : public Visitor {
    Vec3 at_;
    Node *best_ = nullptr;
    float nearest_ = 1e30f;

    void consider(Node &n) {
        if (!n.world_bounds().contains(at_)) return;
        float d = length(n.position() - at_);
        if (d < nearest_) {
            nearest_ = d;
            best_ = &n;
        }
    }

public:
    explicit PointPicker(const Vec3 &p) : at_(p) {}
    Node *result() const { return best_; }
    void visit(Sphere &s) override {
        if (length(s.position() - at_) <= s.radius()) consider(s);
    }
    void visit(Cuboid &c) override { consider(c); }
    void visit(Mesh &m) override { consider(m); }
};

class BoundsCollector final : public Visitor {
public:
    Box box;
    void visit(Sphere &s) override { box.add(s.world_bounds()); }
    void visit(Cuboid &c) override { box.add(c.world_bounds()); }
    void visit(Mesh &m) override {
        for (int i = 0; i < m.size(); ++i) box.add(m.world().point(m.at(i)));
    }
};

template <class F> class ForEachNode final : public Visitor {
    F f_;

public:
    explicit ForEachNode(F f) : f_(f) {}
    void enter(Group &g) override { f_(g); }
    void visit(Sphere &n) override { f_(n); }
    void visit(Cuboid &n) override { f_(n); }
    void visit(Mesh &n) override { f_(n); }
};
template <class F> void for_each(Node &root, F f) {
    ForEachNode<F> v(f);
    root.accept(v);
}

Node *find_by_id(Node &root, int id) {
    Node *hit = nullptr;
    for_each(root, [&](Node &n) {
        if (n.id() == id) hit = &n;
    });
    return hit;
}

Node *pick(Node &root, const Vec3 &p) {
    PointPicker v(p);
    root.accept(v);
    return v.result();
}

Box tight_bounds(Node &root) {
    BoundsCollector v;
    root.accept(v);
    return v.box;
}

void explode(Group &g, float amount) {
    Vec3 mid;
    for (Node *k : g) mid = mid + k->local().shift();
    mid = mid * (1.0f / static_cast<float>(g.size() ? g.size() : 1));
    for (Node *k : g) k->move_by((k->local().shift() - mid) * amount);
}

bool reparent(Node &n, Group &to) {
    for (Group *p = &to; p; p = p->parent())
        if (static_cast<Node *>(p) == &n) return false;
    if (!n.parent()) return false;
    to.adopt(n.parent()->release(&n));
    return true;
}

} // namespace scene

using namespace scene;

static bool near(float a, float b) { return fabsf(a - b) < 1e-3f; }
static bool near(const Vec3 &a, const Vec3 &b) { return near(a.x, b.x) && near(a.y, b.y) && near(a.z, b.z); }

extern "C" int scene_graph_selftest() {
    Allocated<Group> root(1);
    Group *arm = root.make<Group>(2);
    Sphere *ball = arm->make<Sphere>(3, 2.0f);
    Cuboid *block = root.make<Cuboid>(4, Vec3(1, 2, 3));
    Mesh *mesh = arm->make<Mesh>(5);
    mesh->add(Vec3(0, 0, 0));
    mesh->add(Vec3(1, 0, 0));
    mesh->add(Vec3(0, 1, 0));

    ball->move_by(Vec3(10, 0, 0));
    arm->apply(Affine::rotate_z(1.5707963f));
    if (!near(ball->position(), Vec3(0, 10, 0))) return 1;
    arm->move_by(Vec3(0, 0, 5));
    if (!near(ball->position(), Vec3(0, 10, 5))) return 2;
    if (root.triangle_count() != 973) return 3;

    Statistics st;
    root.accept(st);
    if (st.groups != 2 || st.leaves != 3 || st.deepest != 2 || !near(st.volume, 33.5103f + 48)) return 4;
    if (pick(root, Vec3(0, 9, 5)) != ball || pick(root, Vec3(0.5f, 1, 1)) != block || pick(root, Vec3(50, 0, 0))) return 5;
    Box b = tight_bounds(root);
    if (!near(b.lo(), Vec3(-2, -2, -3)) || !near(b.hi(), Vec3(2, 12, 7))) return 6;
    if (find_by_id(root, 5) != mesh || find_by_id(root, 99)) return 7;

    if (reparent(*arm, *arm) || !reparent(*block, *arm)) return 8;
    if (arm->size() != 3 || root.size() != 1 || block->parent() != arm || !near(block->position(), Vec3(0, 0, 5))) return 9;
    explode(*arm, 1.0f);
    if (!near(block->local().shift(), Vec3(-3.33333f, 0, 0)) || !near(ball->local().shift(), Vec3(16.66667f, 0, 0))) return 10;
    block->apply(Affine::scale(Vec3(2, 2, 2)) * Affine::rotate_x(3.1415927f));
    if (!near(block->world_bounds().extent(), Vec3(8, 4, 12))) return 11;
    return 0;
}
