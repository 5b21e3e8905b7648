// Linear algebra with expression templates, fixed matrices, quaternions, unit-checked quantities and dense solvers.
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

namespace la {

// Every vector-like expression derives from Expr<itself>.
template <class E> struct Expr {
    const E &self() const { return static_cast<const E &>(*this); }
    auto operator[](int i) const { return self().at(i); }
    int size() const { return self().count(); }
};

struct AddOp {
    template <class T> static T apply(T a, T b) { return a + b; }
};
struct SubOp {
    template <class T> static T apply(T a, T b) { return a - b; }
};
struct MulOp {
    template <class T> static T apply(T a, T b) { return a * b; }
};

template <class Op, class L, class R> class Binary : public Expr<Binary<Op, L, R>> {
    L l_;
    R r_;

public:
    Binary(const L &l, const R &r) : l_(l), r_(r) {}
    auto at(int i) const { return Op::apply(l_.at(i), r_.at(i)); }
    int count() const { return l_.count(); }
};

template <class E, class S> class Scaled : public Expr<Scaled<E, S>> {
    E e_;
    S s_;

public:
    Scaled(const E &e, S s) : e_(e), s_(s) {}
    auto at(int i) const { return e_.at(i) * s_; }
    int count() const { return e_.count(); }
};

template <class E, class F> class Mapped : public Expr<Mapped<E, F>> {
    E e_;
    F f_;

public:
    Mapped(const E &e, F f) : e_(e), f_(f) {}
    auto at(int i) const { return f_(e_.at(i)); }
    int count() const { return e_.count(); }
};

template <class L, class R> Binary<AddOp, L, R> operator+(const Expr<L> &l, const Expr<R> &r) { return {l.self(), r.self()}; }
template <class L, class R> Binary<SubOp, L, R> operator-(const Expr<L> &l, const Expr<R> &r) { return {l.self(), r.self()}; }
template <class L, class R> Binary<MulOp, L, R> hadamard(const Expr<L> &l, const Expr<R> &r) { return {l.self(), r.self()}; }
template <class E> Scaled<E, double> operator*(const Expr<E> &e, double s) { return {e.self(), s}; }
template <class E> Scaled<E, double> operator*(double s, const Expr<E> &e) { return {e.self(), s}; }
template <class E> Scaled<E, double> operator-(const Expr<E> &e) { return {e.self(), -1.0}; }
template <class E, class F> Mapped<E, F> map(const Expr<E> &e, F f) { return {e.self(), f}; }

template <class E> double sum(const Expr<E> &e) {
    double s = 0;
    for (int i = 0; i < e.size(); ++i) s += e[i];
    return s;
}
template <class L, class R> double dot(const Expr<L> &l, const Expr<R> &r) { return sum(hadamard(l, r)); }
template <class E> double norm(const Expr<E> &e) { return sqrt(dot(e, e)); }
template <class E> double max_abs(const Expr<E> &e) {
    double m = 0;
    for (int i = 0; i < e.size(); ++i) m = fmax(m, fabs(e[i]));
    return m;
}

template <class T, int N> class Vec : public Expr<Vec<T, N>> {
    T v_[N] = {};

public:
    Vec() = default;
    template <class... A> explicit Vec(T first, A... rest) : v_{first, static_cast<T>(rest)...} {}
    template <class E> Vec(const Expr<E> &e) { assign(e); }
    template <class E> Vec &operator=(const Expr<E> &e) {
        assign(e);
        return *this;
    }
    template <class E> void assign(const Expr<E> &e) {
        for (int i = 0; i < N; ++i) v_[i] = static_cast<T>(e[i]);
    }
    template <class E> Vec &operator+=(const Expr<E> &e) { return *this = *this + e; }
    template <class E> Vec &operator-=(const Expr<E> &e) { return *this = *this - e; }
    T at(int i) const { return v_[i]; }
    static int count() { return N; }
    T &operator[](int i) { return v_[i]; }
    T operator[](int i) const { return v_[i]; }
    Vec unit() const {
        double n = norm(*this);
        return n > 0 ? Vec(*this * (1 / n)) : Vec();
    }
};
using Vec3 = Vec<double, 3>;
using Vec2f = Vec<float, 2>;

inline Vec3 cross(const Vec3 &a, const Vec3 &b) {
    return Vec3(a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]);
}

// Non-owning strided view: rows and columns of matrices are expressions too.
class Strided : public Expr<Strided> {
    double *p_;
    int n_, step_;

public:
    Strided(double *p, int n, int step) : p_(p), n_(n), step_(step) {}
    double at(int i) const { return p_[i * step_]; }
    double &ref(int i) const { return p_[i * step_]; }
    int count() const { return n_; }
    template <class E> const Strided &set(const Expr<E> &e) const {
        for (int i = 0; i < n_; ++i) ref(i) = e[i];
        return *this;
    }
    template <class E> void subtract(const Expr<E> &e) const { set(*this - e); }
    void swap(const Strided &o) const {
        for (int i = 0; i < n_; ++i) {
            double t = ref(i);
            ref(i) = o.ref(i);
            o.ref(i) = t;
        }
    }
};

class Matrix {
    int rows_, cols_;
    double *a_;

public:
    Matrix(int r, int c) : rows_(r), cols_(c), a_(static_cast<double *>(calloc(static_cast<size_t>(r * c), sizeof(double)))) {
        if (!a_) abort();
    }
    Matrix(const Matrix &o) : Matrix(o.rows_, o.cols_) { memcpy(a_, o.a_, o.bytes()); }
    Matrix(Matrix &&o) : rows_(o.rows_), cols_(o.cols_), a_(o.a_) { o.a_ = nullptr; }
    Matrix &operator=(const Matrix &) = delete;
    ~Matrix() { free(a_); }
    static Matrix identity(int n) {
        Matrix m(n, n);
        for (int i = 0; i < n; ++i) m(i, i) = 1;
        return m;
    }
    size_t bytes() const { return static_cast<size_t>(rows_ * cols_) * sizeof(double); }
    int rows() const { return rows_; }
    int cols() const { return cols_; }
    double &operator()(int r, int c) { return a_[r * cols_ + c]; }
    double operator()(int r, int c) const { return a_[r * cols_ + c]; }
    Strided row(int r) const { return Strided(a_ + r * cols_, cols_, 1); }
    Strided column(int c) const { return Strided(a_ + c, rows_, cols_); }
    Strided diagonal() const { return Strided(a_, rows_ < cols_ ? rows_ : cols_, cols_ + 1); }
    Strided all() const { return Strided(a_, rows_ * cols_, 1); }
    double trace() const { return sum(diagonal()); }
    Matrix transposed() const {
        Matrix t(cols_, rows_);
        for (int i = 0; i < rows_; ++i) t.column(i).set(row(i));
        return t;
    }
};
inline Matrix operator*(const Matrix &a, const Matrix &b) {
    Matrix out(a.rows(), b.cols());
    for (int i = 0; i < a.rows(); ++i)
        for (int j = 0; j < b.cols(); ++j) out(i, j) = dot(a.row(i), b.column(j));
    return out;
}
inline double difference(const Matrix &a, const Matrix &b) { return max_abs(a.all() - b.all()); }

class Quat {
    double w_;
    Vec3 v_;

public:
    Quat() : w_(1) {}
    Quat(double w, const Vec3 &v) : w_(w), v_(v) {}
    static Quat about(const Vec3 &axis, double angle) { return Quat(cos(angle / 2), axis.unit() * sin(angle / 2)); }
    double w() const { return w_; }
    const Vec3 &v() const { return v_; }
    Quat conj() const { return Quat(w_, -v_); }
    double dot4(const Quat &o) const { return w_ * o.w_ + dot(v_, o.v_); }
    Quat operator*(const Quat &o) const { return Quat(w_ * o.w_ - dot(v_, o.v_), v_ * o.w_ + o.v_ * w_ + cross(v_, o.v_)); }
    Quat operator*(double s) const { return Quat(w_ * s, v_ * s); }
    Quat operator+(const Quat &o) const { return Quat(w_ + o.w_, v_ + o.v_); }
    Quat normalized() const { return *this * (1 / sqrt(dot4(*this))); }
    Vec3 rotate(const Vec3 &p) const { return (*this * Quat(0, p) * conj()).v_; }
    Matrix matrix() const {
        Matrix m(3, 3);
        for (int i = 0; i < 3; ++i) {
            Vec3 axis;
            axis[i] = 1;
            m.column(i).set(rotate(axis));
        }
        return m;
    }
};

Quat slerp(const Quat &a, const Quat &b, double t) {
    double c = a.dot4(b);
    Quat to = c < 0 ? b * -1 : b;
    c = fabs(c);
    if (c > 0.9995) return (a * (1 - t) + to * t).normalized();
    double angle = acos(c), s = sin(angle);
    return a * (sin((1 - t) * angle) / s) + to * (sin(t * angle) / s);
}

// Dimensional analysis: exponents of metre, kilogram and second.
template <int M, int K, int S> class Quantity {
    double v_;

public:
    explicit constexpr Quantity(double v) : v_(v) {}
    double value() const { return v_; }
    Quantity operator+(const Quantity &o) const { return Quantity(v_ + o.v_); }
    Quantity operator-(const Quantity &o) const { return Quantity(v_ - o.v_); }
    Quantity operator*(double s) const { return Quantity(v_ * s); }
    bool operator<(const Quantity &o) const { return v_ < o.v_; }
    template <int A, int B, int C> Quantity<M + A, K + B, S + C> operator*(const Quantity<A, B, C> &o) const { return Quantity<M + A, K + B, S + C>(v_ * o.value()); }
    template <int A, int B, int C> Quantity<M - A, K - B, S - C> operator/(const Quantity<A, B, C> &o) const { return Quantity<M - A, K - B, S - C>(v_ / o.value()); }
};
using Length = Quantity<1, 0, 0>;
using Mass = Quantity<0, 1, 0>;
using Time = Quantity<0, 0, 1>;
using Speed = Quantity<1, 0, -1>;
using Accel = Quantity<1, 0, -2>;
using Force = Quantity<1, 1, -2>;
using Energy = Quantity<2, 1, -2>;

// Gauss-Jordan with partial pivoting; false when singular.
bool invert(const Matrix &m, Matrix &out) {
    Matrix a(m);
    int n = a.rows();
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j) out(i, j) = i == j;
    for (int c = 0; c < n; ++c) {
        int pivot = c;
        for (int r = c + 1; r < n; ++r)
            if (fabs(a(r, c)) > fabs(a(pivot, c))) pivot = r;
        if (fabs(a(pivot, c)) < 1e-12) return false;
        a.row(c).swap(a.row(pivot));
        out.row(c).swap(out.row(pivot));
        double inv = 1 / a(c, c);
        a.row(c).set(a.row(c) * inv);
        out.row(c).set(out.row(c) * inv);
        for (int r = 0; r < n; ++r) {
            double f = a(r, c);
            if (r == c || f == 0) continue;
            a.row(r).subtract(a.row(c) * f);
            out.row(r).subtract(out.row(c) * f);
        }
    }
    return true;
}

// Cholesky factor of a symmetric positive definite matrix.
bool cholesky(const Matrix &a, Matrix &l) {
    for (int j = 0; j < a.rows(); ++j) {
        for (int i = j; i < a.rows(); ++i) {
            double s = a(i, j) - dot(Strided(&l(i, 0), j, 1), Strided(&l(j, 0), j, 1));
            if (i > j) {
                l(i, j) = s / l(j, j);
            } else {
                if (s <= 0) return false;
                l(j, j) = sqrt(s);
            }
        }
    }
    return true;
}

// Modified Gram-Schmidt over the columns.
int orthonormalize(Matrix &m) {
    int rank = 0;
    for (int c = 0; c < m.cols(); ++c) {
        Strided col = m.column(c);
        for (int k = 0; k < c; ++k) col.subtract(m.column(k) * dot(m.column(k), col));
        double n = norm(col);
        if (n > 1e-9) ++rank;
        col.set(col * (n > 1e-9 ? 1 / n : 0));
    }
    return rank;
}

double dominant_eigenvalue(const Matrix &m, int rounds) {
    Matrix v(m.cols(), 1);
    v.column(0).set(map(v.column(0), [](double) { return 1.0; }));
    double value = 0;
    for (int i = 0; i < rounds; ++i) {
        Matrix w = m * v;
        value = norm(w.column(0));
        v.column(0).set(w.column(0) * (1 / value));
    }
    return value;
}

// Two-body leapfrog; returns the relative energy drift.
double orbit_drift(int steps, double h) {
    Vec3 pos(1, 0, 0), vel(0, 1.1, 0.1);
    auto accel = [](const Vec3 &p) { return Vec3(-p * (1 / pow(norm(p), 3))); };
    auto energy = [&] { return dot(vel, vel) / 2 - 1 / norm(pos); };
    double start = energy();
    for (int i = 0; i < steps; ++i) {
        vel += accel(pos) * (h / 2);
        pos += vel * h;
        vel += accel(pos) * (h / 2);
    }
    return fabs((energy() - start) / start);
}

Energy fall_energy(Mass m, Length h, Accel g) { return m * g * h; }
Speed mean_speed(Length d, Time t) { return d / t; }
Time stopping_time(Mass m, Speed v, Force brake) { return m * v / brake; }

} // namespace la

using namespace la;

static bool near(double a, double b) { return fabs(a - b) < 1e-6; }

static int check_matrices() {
    Matrix a(4, 4), inv(4, 4), low(4, 4);
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) a(i, j) = i == j ? 5 + i : 1.0 / (1 + i + j);
    if (!invert(a, inv) || difference(a * inv, Matrix::identity(4)) > 1e-9) return 1;
    if (!cholesky(a, low) || difference(low * low.transposed(), a) > 1e-9 || !near(a.trace(), 26)) return 2;
    Matrix flat(2, 2);
    flat.row(0).set(Vec2f(1, 2));
    flat.row(1).set(Vec2f(2, 4));
    Matrix dummy(2, 2);
    if (invert(flat, dummy) || orthonormalize(flat) != 1) return 3;
    Matrix q(a);
    if (orthonormalize(q) != 4 || difference(q.transposed() * q, Matrix::identity(4)) > 1e-9) return 4;
    Matrix d(2, 2);
    d.diagonal().set(Vec2f(3, 7));
    d(0, 1) = 1;
    return near(dominant_eigenvalue(d, 60), 7) ? 0 : 5;
}

extern "C" int linalg_selftest() {
    Vec3 a(1, 2, 3), b(4, 5, 6);
    Vec3 c = a * 2 + b - hadamard(a, b) * 0.5;
    if (!near(c[0], 4) || !near(c[1], 4) || !near(c[2], 3)) return 1;
    if (!near(dot(a, b), 32) || !near(norm(cross(a, b)), sqrt(54.0)) || !near(norm(b.unit()), 1)) return 2;
    c -= a + a;
    if (!near(max_abs(c), 3) || !near(sum(map(a, [](double x) { return x * x; })), 14)) return 3;
    if (int r = check_matrices()) return 10 + r;

    Quat turn = Quat::about(Vec3(0, 0, 2), M_PI / 2);
    Vec3 p = turn.rotate(Vec3(1, 0, 5));
    if (!near(p[0], 0) || !near(p[1], 1) || !near(p[2], 5)) return 20;
    Quat half = slerp(Quat(), turn, 0.5), same = slerp(turn, turn * -1, 0.3);
    if (!near(half.w(), cos(M_PI / 8)) || !near(fabs(same.dot4(turn)), 1)) return 21;
    if (difference((half * half).matrix(), turn.matrix()) > 1e-9 || !near(turn.matrix().trace(), 1)) return 22;
    if (orbit_drift(2000, 0.005) > 1e-3) return 23;

    if (!near(fall_energy(Mass(2), Length(10), Accel(9.5)).value(), 190)) return 30;
    if (!(mean_speed(Length(100), Time(9.58)) < Speed(10.5)) || !near(stopping_time(Mass(1000), Speed(20), Force(4000)).value(), 5)) return 31;
    return near((Length(3) + Length(4) * 2 - Length(1)).value(), 10) ? 0 : 32;
}
