// Entity component system: generational handles, sparse-set pools, typed views, events and a small game simulation.
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

inline void *operator new(size_t, void *p) noexcept { return p; }

namespace ecs {

template <class T> T &&move(T &v) { return static_cast<T &&>(v); }

template <class T> class Array {
    T *at_ = nullptr;
    uint32_t size_ = 0, cap_ = 0;

    void widen() {
        uint32_t cap = cap_ ? cap_ + cap_ / 2 + 1 : 8;
        T *fresh = static_cast<T *>(malloc(cap * sizeof(T)));
        if (!fresh) abort();
        for (uint32_t i = 0; i < size_; ++i) {
            new (fresh + i) T(move(at_[i]));
            at_[i].~T();
        }
        free(at_);
        at_ = fresh;
        cap_ = cap;
    }

public:
    Array() = default;
    Array(const Array &) = delete;
    Array &operator=(const Array &) = delete;
    ~Array() { clear(); free(at_); }
    uint32_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    T *begin() const { return at_; }
    T *end() const { return at_ + size_; }
    T &operator[](uint32_t i) const { return at_[i]; }
    T &back() const { return at_[size_ - 1]; }
    T &push(T v) {
        if (size_ == cap_) widen();
        return *new (at_ + size_++) T(move(v));
    }
    void pop() { at_[--size_].~T(); }
    T take_back() {
        T v(move(back()));
        pop();
        return v;
    }
    void swap_out(uint32_t i) {
        if (i + 1 != size_) at_[i] = move(back());
        pop();
    }
    void clear() {
        while (size_) pop();
    }
    void fill_to(uint32_t n, const T &v) {
        while (size_ < n) push(v);
    }
};

struct Entity {
    uint32_t bits = ~0u;
    Entity() = default;
    Entity(uint32_t index, uint32_t gen) : bits(gen << 20 | index) {}
    uint32_t index() const { return bits & 0xfffff; }
    uint32_t generation() const { return bits >> 20; }
    explicit operator bool() const { return bits != ~0u; }
    bool operator==(const Entity &o) const { return bits == o.bits; }
    bool operator!=(const Entity &o) const { return !(*this == o); }
};

class PoolBase {
protected:
    static constexpr uint32_t kNone = ~0u;
    Array<uint32_t> sparse_;
    Array<Entity> dense_;

    uint32_t slot(Entity e) const {
        uint32_t i = e.index();
        if (i >= sparse_.size()) return kNone;
        uint32_t s = sparse_[i];
        return s != kNone && dense_[s] == e ? s : kNone;
    }
    uint32_t attach(Entity e) {
        sparse_.fill_to(e.index() + 1, kNone);
        sparse_[e.index()] = dense_.size();
        dense_.push(e);
        return dense_.size() - 1;
    }
    void detach(uint32_t s) {
        sparse_[dense_[s].index()] = kNone;
        if (s + 1 != dense_.size()) sparse_[dense_.back().index()] = s;
        dense_.swap_out(s);
    }

public:
    virtual void remove(Entity e) = 0;
    bool has(Entity e) const { return slot(e) != kNone; }
    uint32_t size() const { return dense_.size(); }
    Entity owner(uint32_t s) const { return dense_[s]; }

protected:
    ~PoolBase() = default;
};

template <class C> class Pool final : public PoolBase {
    Array<C> data_;

public:
    C &set(Entity e, C v) {
        uint32_t s = slot(e);
        if (s != kNone) return data_[s] = move(v);
        attach(e);
        return data_.push(move(v));
    }
    C *find(Entity e) const { uint32_t s = slot(e); return s == kNone ? nullptr : &data_[s]; }
    C &get(Entity e) const { return *find(e); }
    void remove(Entity e) override {
        uint32_t s = slot(e);
        if (s == kNone) return;
        detach(s);
        data_.swap_out(s);
    }
};

class Registry {
    Array<uint32_t> generations_;
    Array<uint32_t> vacant_;
    Array<PoolBase *> pools_;
    uint32_t alive_ = 0;

public:
    void enlist(PoolBase &p) { pools_.push(&p); }
    uint32_t alive() const { return alive_; }
    bool valid(Entity e) const { return e && e.index() < generations_.size() && generations_[e.index()] == e.generation(); }
    Entity create() {
        ++alive_;
        if (!vacant_.empty()) {
            uint32_t i = vacant_.take_back();
            return Entity(i, generations_[i]);
        }
        generations_.push(0);
        return Entity(generations_.size() - 1, 0);
    }
    bool destroy(Entity e) {
        if (!valid(e)) return false;
        for (PoolBase *p : pools_) p->remove(e);
        generations_[e.index()] = (generations_[e.index()] + 1) & 0x7ff;
        vacant_.push(e.index());
        --alive_;
        return true;
    }
};

// Visits entities that have every listed component, driven by the first pool, from the back so that removal is safe.
template <class Lead, class... Rest> class View {
    Pool<Lead> &lead_;

    template <class F> static bool invoke(F &f, Entity e, Lead &l, Rest *...rest) {
        bool all = true;
        ((all = all && rest), ...);
        if (all) f(e, l, *rest...);
        return all;
    }

public:
    View(Pool<Lead> &lead) : lead_(lead) {}
    template <class F> uint32_t each(F f, Pool<Rest> &...others) {
        uint32_t n = 0;
        for (uint32_t i = lead_.size(); i-- > 0;) {
            if (i >= lead_.size()) continue;
            Entity e = lead_.owner(i);
            n += invoke(f, e, lead_.get(e), others.find(e)...);
        }
        return n;
    }
};

// Small-object callable with value semantics for event handlers.
template <class Arg> class Handler {
    alignas(void *) unsigned char store_[3 * sizeof(void *)];
    void (*call_)(void *, const Arg &);

public:
    template <class F> Handler(F f) {
        static_assert(sizeof(F) <= sizeof(store_), "capture too large");
        new (store_) F(f);
        call_ = [](void *p, const Arg &a) { (*static_cast<F *>(p))(a); };
    }
    void operator()(const Arg &a) { call_(store_, a); }
};

template <class E> class Channel {
    Array<Handler<E>> handlers_;
    Array<E> queue_;

public:
    template <class F> void on(F f) { handlers_.push(Handler<E>(f)); }
    void post(const E &e) { queue_.push(e); }
    uint32_t pending() const { return queue_.size(); }
    void flush() {
        for (uint32_t i = 0; i < queue_.size(); ++i) {
            E e = queue_[i];
            for (Handler<E> &h : handlers_) h(e);
        }
        queue_.clear();
    }
};

} // namespace ecs

using ecs::Entity;

struct Position { float x, y; };
struct Velocity {
    float dx, dy;
    float speed() const { return sqrtf(dx * dx + dy * dy); }
};
struct Health {
    int now, max;
    bool dead() const { return now <= 0; }
    void hurt(int n) { now -= n; }
    void heal(int n) { now = now + n > max ? max : now + n; }
};
struct Timer {
    int left;
    bool tick() { return --left <= 0; }
};
struct Weapon {
    Entity target;
    int damage, range, cooldown, wait;
    bool ready() { return wait-- <= 0; }
};

struct Collision { Entity a, b; };
struct Death { Entity who; Position where; };

class World {
    ecs::Registry reg_;
    ecs::Pool<Position> pos_;
    ecs::Pool<Velocity> vel_;
    ecs::Pool<Health> health_;
    ecs::Pool<Timer> timer_;
    ecs::Pool<Weapon> weapon_;
    ecs::Channel<Collision> collisions_;
    ecs::Channel<Death> deaths_;
    float width_, height_;
    int kills_ = 0, bumps_ = 0;

    static float distance(const Position &a, const Position &b) {
        float dx = a.x - b.x, dy = a.y - b.y;
        return sqrtf(dx * dx + dy * dy);
    }
    static void bounce(float &p, float &v, float limit) {
        if (p >= 0 && p <= limit) return;
        p = p < 0 ? -p : 2 * limit - p;
        v = -v;
    }
    void strike(Entity e, int damage) {
        Health *h = health_.find(e);
        if (!h || h->dead()) return;
        h->hurt(damage);
        if (h->dead()) deaths_.post(Death{e, pos_.get(e)});
    }

public:
    World(float w, float h) : width_(w), height_(h) {
        ecs::PoolBase *pools[] = {&pos_, &vel_, &health_, &timer_, &weapon_};
        for (ecs::PoolBase *p : pools) reg_.enlist(*p);
        collisions_.on([this](const Collision &c) { strike(c.a, 1); strike(c.b, 1); ++bumps_; });
        deaths_.on([this](const Death &d) { spawn_spark(d.where); });
        deaths_.on([this](const Death &d) { kills_ += reg_.destroy(d.who); });
    }
    World(const World &) = delete;

    Entity spawn_at(float x, float y) {
        Entity e = reg_.create();
        pos_.set(e, Position{x, y});
        return e;
    }
    Entity spawn_mover(float x, float y, float dx, float dy) {
        Entity e = spawn_at(x, y);
        vel_.set(e, Velocity{dx, dy});
        return e;
    }
    Entity spawn_unit(float x, float y, float dx, float dy, int hp) {
        Entity e = spawn_mover(x, y, dx, dy);
        health_.set(e, Health{hp, hp});
        return e;
    }
    Entity spawn_turret(float x, float y, int damage, int range, int cooldown) {
        Entity e = spawn_at(x, y);
        weapon_.set(e, Weapon{Entity(), damage, range, cooldown, 0});
        return e;
    }
    void spawn_spark(const Position &p) { Entity e = spawn_at(p.x, p.y); timer_.set(e, Timer{3}); }

    void move_all(float dt) {
        ecs::View<Velocity, Position>(vel_).each(
            [&](Entity, Velocity &v, Position &p) {
                p.x += v.dx * dt;
                p.y += v.dy * dt;
                bounce(p.x, v.dx, width_);
                bounce(p.y, v.dy, height_);
            },
            pos_);
    }
    void expire() {
        ecs::View<Timer>(timer_).each([&](Entity e, Timer &t) {
            if (t.tick()) reg_.destroy(e);
        });
    }
    Entity nearest_unit(const Position &from, float range) {
        Entity best;
        ecs::View<Health, Position>(health_).each(
            [&](Entity e, Health &h, Position &p) {
                float d = distance(from, p);
                if (h.dead() || d > range) return;
                range = d;
                best = e;
            },
            pos_);
        return best;
    }
    void shoot() {
        ecs::View<Weapon, Position>(weapon_).each(
            [&](Entity, Weapon &w, Position &p) {
                if (!w.ready()) return;
                if (!reg_.valid(w.target)) w.target = nearest_unit(p, static_cast<float>(w.range));
                if (!w.target) return;
                strike(w.target, w.damage);
                w.wait = w.cooldown;
            },
            pos_);
    }
    void collide(float radius) {
        for (uint32_t i = 0; i < health_.size(); ++i)
            for (uint32_t j = i + 1; j < health_.size(); ++j) {
                Entity a = health_.owner(i), b = health_.owner(j);
                if (distance(pos_.get(a), pos_.get(b)) < radius) collisions_.post(Collision{a, b});
            }
    }
    void regenerate() {
        ecs::View<Health, Velocity>(health_).each(
            [](Entity, Health &h, Velocity &v) {
                if (v.speed() < 0.5f) h.heal(1);
            },
            vel_);
    }
    void step() {
        move_all(1.0f);
        collide(1.0f);
        shoot();
        regenerate();
        collisions_.flush();
        deaths_.flush();
        expire();
    }

    uint32_t alive() const { return reg_.alive(); }
    int kills() const { return kills_; }
    int bumps() const { return bumps_; }
    bool valid(Entity e) const { return reg_.valid(e); }
    bool kill(Entity e) { return reg_.destroy(e); }
    const Position *where(Entity e) const { return pos_.find(e); }
    const Health *health(Entity e) const { return health_.find(e); }
    void freeze(Entity e) { vel_.remove(e); }
    bool moving(Entity e) const { return vel_.has(e); }
};

// Runs until nobody is left or the step budget ends; returns the steps taken.
int run_battle(World &w, int units, int max_steps) {
    int n = 0;
    while (n < max_steps && w.kills() < units) {
        w.step();
        ++n;
    }
    return n;
}

static int check_handles() {
    World w(100, 100);
    Entity a = w.spawn_at(1, 1), b = w.spawn_mover(2, 2, 1, 0);
    if (a == b || !w.valid(a) || w.alive() != 2) return 1;
    if (!w.kill(a) || w.kill(a) || w.valid(a)) return 2;
    Entity c = w.spawn_at(3, 3);
    if (c.index() != a.index() || c == a || w.where(a) || !w.where(c)) return 3;
    for (int i = 0; i < 98; ++i) w.move_all(1);
    if (w.where(b)->x != 100) return 4;
    w.move_all(4);
    if (w.where(b)->x != 96) return 5;
    w.freeze(b);
    return w.moving(b) || w.valid(Entity()) ? 6 : 0;
}

extern "C" int ecs_selftest() {
    if (int r = check_handles()) return r;
    World w(50, 50);
    Entity first;
    for (int i = 0; i < 10; ++i) {
        Entity e = w.spawn_unit(static_cast<float>(5 * i), 10, 0, i % 2 ? 1.0f : 0.25f, 6 + i);
        if (i == 0) first = e;
    }
    w.spawn_turret(25, 12, 3, 200, 1);
    w.spawn_turret(5, 5, 2, 30, 0);
    if (w.alive() != 12) return 10;
    w.step();
    if (w.health(first)->now > 6) return 11;
    int steps = run_battle(w, 10, 500);
    if (w.kills() != 10 || steps < 20 || steps > 200 || w.valid(first)) return 12;
    for (int i = 0; i < 5; ++i) w.step();
    if (w.alive() != 2) return 13;
    Entity a = w.spawn_unit(40, 40, 0, 0, 50), b = w.spawn_unit(40.5f, 40, 0, 0, 50);
    w.step();
    return w.bumps() == 1 && w.health(a)->now + w.health(b)->now < 100 ? 0 : 14;
}
