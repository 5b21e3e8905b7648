// Graph algorithms over a templated adjacency list: shortest paths, components, spanning trees, orders, flow and matching.
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

namespace gr {

template <class T> class Seq {
    T *p_ = nullptr;
    int n_ = 0, cap_ = 0;

public:
    Seq() = default;
    Seq(int n, const T &v) {
        while (n_ < n) push(v);
    }
    Seq(const Seq &) = delete;
    Seq(Seq &&o) : p_(o.p_), n_(o.n_), cap_(o.cap_) { o.p_ = nullptr; }
    Seq &operator=(const Seq &) = delete;
    ~Seq() { free(p_); }
    void push(const T &v) {
        T copy = v;
        if (n_ == cap_) {
            cap_ = cap_ ? cap_ * 2 : 8;
            p_ = static_cast<T *>(realloc(p_, static_cast<size_t>(cap_) * sizeof(T)));
            if (!p_) abort();
        }
        p_[n_++] = copy;
    }
    T pop() { return p_[--n_]; }
    bool empty() const { return n_ == 0; }
    int size() const { return n_; }
    T &operator[](int i) { return p_[i]; }
    const T &operator[](int i) const { return p_[i]; }
    T *begin() { return p_; }
    T *end() { return p_ + n_; }
    const T *begin() const { return p_; }
    const T *end() const { return p_ + n_; }
    void reverse() {
        for (int i = 0, j = n_ - 1; i < j; ++i, --j) {
            T t = p_[i];
            p_[i] = p_[j];
            p_[j] = t;
        }
    }
};

// Binary heap; Before(a, b) says that a leaves first.
template <class T, class Before> class Heap {
    Seq<T> a_;
    Before before_;

    static int parent(int i) { return (i - 1) / 2; }
    static int left(int i) { return 2 * i + 1; }
    void swap(int i, int j) {
        T t = a_[i];
        a_[i] = a_[j];
        a_[j] = t;
    }
    int better(int i, int j) const { return j < a_.size() && before_(a_[j], a_[i]) ? j : i; }

public:
    explicit Heap(Before b) : before_(b) {}
    bool empty() const { return a_.empty(); }
    void push(const T &v) {
        a_.push(v);
        for (int i = a_.size() - 1; i > 0 && before_(a_[i], a_[parent(i)]); i = parent(i)) swap(i, parent(i));
    }
    T pop() {
        swap(0, a_.size() - 1);
        T top = a_.pop();
        for (int i = 0, next;; i = next) {
            next = better(better(i, left(i)), left(i) + 1);
            if (next == i) return top;
            swap(i, next);
        }
    }
};

class DisjointSets {
    Seq<int> parent_;

public:
    explicit DisjointSets(int n) : parent_(n, -1) {}
    int find(int v) {
        while (parent_[v] >= 0) {
            int up = parent_[v];
            if (parent_[up] >= 0) parent_[v] = parent_[up];
            v = up;
        }
        return v;
    }
    int size(int v) { return -parent_[find(v)]; }
    bool unite(int a, int b) {
        a = find(a);
        b = find(b);
        if (a == b) return false;
        if (parent_[a] > parent_[b]) {
            int t = a;
            a = b;
            b = t;
        }
        parent_[a] += parent_[b];
        parent_[b] = a;
        return true;
    }
};

// Edges live in one array, chained per vertex; edge ids pair up so that id ^ 1 can be a reverse edge.
template <class W> class Graph {
public:
    struct Edge {
        int from, to, next;
        W weight;
    };

private:
    Seq<int> head_;
    Seq<Edge> edges_;

public:
    class OutRange {
        const Graph &g_;
        int first_;

    public:
        class Iter {
            const Graph *g_;
            int id_;

        public:
            Iter(const Graph *g, int id) : g_(g), id_(id) {}
            const Edge &operator*() const { return g_->edge(id_); }
            Iter &operator++() { id_ = g_->edge(id_).next; return *this; }
            bool operator!=(const Iter &o) const { return id_ != o.id_; }
        };
        OutRange(const Graph &g, int first) : g_(g), first_(first) {}
        Iter begin() const { return Iter(&g_, first_); }
        Iter end() const { return Iter(&g_, -1); }
    };
    explicit Graph(int n) : head_(n, -1) {}
    int vertices() const { return head_.size(); }
    int edges() const { return edges_.size(); }
    const Edge &edge(int id) const { return edges_[id]; }
    Edge &edge(int id) { return edges_[id]; }
    int id_of(const Edge &e) const { return static_cast<int>(&e - edges_.begin()); }
    OutRange out(int v) const { return OutRange(*this, head_[v]); }
    int add(int a, int b, W w = W()) { edges_.push(Edge{a, b, head_[a], w}); return head_[a] = edges_.size() - 1; }
    void add_both(int a, int b, W w = W()) { add(a, b, w); add(b, a, w); }
    Graph reversed() const {
        Graph r(vertices());
        for (const Edge &e : edges_) r.add(e.to, e.from, e.weight);
        return r;
    }
};

template <class W> struct Limits;
template <> struct Limits<int> { static constexpr int far = INT_MAX / 2; };
template <> struct Limits<double> { static constexpr double far = 1e300; };

template <class W> struct Paths {
    Seq<W> dist;
    Seq<int> via; // edge id
    explicit Paths(int n) : dist(n, Limits<W>::far), via(n, -1) {}
    bool reaches(int v) const { return dist[v] < Limits<W>::far; }
    Seq<int> trace(const Graph<W> &g, int to) const {
        Seq<int> path;
        for (int v = to; reaches(to); v = g.edge(via[v]).from) {
            path.push(v);
            if (via[v] < 0) break;
        }
        path.reverse();
        return path;
    }
};

template <class W> struct Label {
    W key;
    int v;
};
template <class W> struct Sooner {
    bool operator()(const Label<W> &a, const Label<W> &b) const { return a.key < b.key; }
};

// Best-first search; guide(v) is an admissible estimate (0 gives Dijkstra).
template <class W, class Guide> Paths<W> best_first(const Graph<W> &g, int src, int goal, Guide guide) {
    Paths<W> p(g.vertices());
    Seq<char> done(g.vertices(), 0);
    Heap<Label<W>, Sooner<W>> heap{Sooner<W>()};
    p.dist[src] = W();
    heap.push(Label<W>{guide(src), src});
    while (!heap.empty()) {
        int v = heap.pop().v;
        if (done[v]) continue;
        done[v] = 1;
        if (v == goal) break;
        for (const auto &e : g.out(v)) {
            W d = p.dist[v] + e.weight;
            if (!(d < p.dist[e.to])) continue;
            p.dist[e.to] = d;
            p.via[e.to] = g.id_of(e);
            heap.push(Label<W>{d + guide(e.to), e.to});
        }
    }
    return p;
}
template <class W> Paths<W> dijkstra(const Graph<W> &g, int src) { return best_first(g, src, -1, [](int) { return W(); }); }

// False when a negative cycle is reachable.
template <class W> bool bellman_ford(const Graph<W> &g, int src, Paths<W> &p) {
    p.dist[src] = W();
    for (int round = 0; round < g.vertices(); ++round) {
        bool changed = false;
        for (int id = 0; id < g.edges(); ++id) {
            const auto &e = g.edge(id);
            if (!p.reaches(e.from) || !(p.dist[e.from] + e.weight < p.dist[e.to])) continue;
            p.dist[e.to] = p.dist[e.from] + e.weight;
            p.via[e.to] = id;
            changed = true;
        }
        if (!changed) return true;
    }
    return false;
}

// Depth-first walk calling enter/leave hooks.
template <class W, class Enter, class Leave> void dfs(const Graph<W> &g, int v, Seq<char> &seen, Enter enter, Leave leave) {
    if (seen[v]) return;
    seen[v] = 1;
    enter(v);
    for (const auto &e : g.out(v)) dfs<W, Enter, Leave>(g, e.to, seen, enter, leave);
    leave(v);
}
template <class W> Seq<int> finish_order(const Graph<W> &g) {
    Seq<int> order;
    Seq<char> seen(g.vertices(), 0);
    for (int v = 0; v < g.vertices(); ++v)
        dfs(g, v, seen, [](int) {}, [&order](int x) { order.push(x); });
    return order;
}

// Kosaraju; returns the component of each vertex, numbered in topological order.
template <class W> Seq<int> strong_components(const Graph<W> &g, int &count) {
    Seq<int> comp(g.vertices(), -1), order = finish_order(g);
    Seq<char> seen(g.vertices(), 0);
    Graph<W> back = g.reversed();
    order.reverse();
    count = 0;
    for (int v : order) {
        if (seen[v]) continue;
        dfs(back, v, seen, [&](int x) { comp[x] = count; }, [](int) {});
        ++count;
    }
    return comp;
}

template <class W> bool topological(const Graph<W> &g, Seq<int> &out) {
    Seq<int> indegree(g.vertices(), 0);
    for (int id = 0; id < g.edges(); ++id) ++indegree[g.edge(id).to];
    auto smaller = [](int a, int b) { return a < b; };
    Heap<int, decltype(smaller)> ready(smaller);
    for (int v = 0; v < g.vertices(); ++v)
        if (!indegree[v]) ready.push(v);
    while (!ready.empty()) {
        int v = ready.pop();
        out.push(v);
        for (const auto &e : g.out(v))
            if (--indegree[e.to] == 0) ready.push(e.to);
    }
    return out.size() == g.vertices();
}

template <class W> W kruskal(const Graph<W> &g, Seq<int> &chosen) {
    auto lighter = [&g](int a, int b) { return g.edge(a).weight < g.edge(b).weight; };
    Heap<int, decltype(lighter)> heap(lighter);
    for (int id = 0; id < g.edges(); ++id) heap.push(id);
    DisjointSets sets(g.vertices());
    W total = W();
    while (!heap.empty()) {
        int id = heap.pop();
        if (!sets.unite(g.edge(id).from, g.edge(id).to)) continue;
        total += g.edge(id).weight;
        chosen.push(id);
    }
    return total;
}

template <class W> int weak_components(const Graph<W> &g) {
    DisjointSets sets(g.vertices());
    int n = g.vertices();
    for (int id = 0; id < g.edges(); ++id) n -= sets.unite(g.edge(id).from, g.edge(id).to);
    return n;
}

class FlowNetwork {
    Graph<int> g_; // weight = residual capacity

    int augment(const Paths<int> &p, int sink) {
        int room = INT_MAX;
        for (int id = p.via[sink]; id >= 0; id = p.via[g_.edge(id).from])
            if (g_.edge(id).weight < room) room = g_.edge(id).weight;
        for (int id = p.via[sink]; id >= 0; id = p.via[g_.edge(id).from]) {
            g_.edge(id).weight -= room;
            g_.edge(id ^ 1).weight += room;
        }
        return room;
    }
    bool bfs(int src, int sink, Paths<int> &p) const {
        Seq<int> queue;
        queue.push(src);
        p.dist[src] = 0;
        for (int i = 0; i < queue.size() && !p.reaches(sink); ++i)
            for (const auto &e : g_.out(queue[i])) {
                if (e.weight <= 0 || p.reaches(e.to)) continue;
                p.dist[e.to] = p.dist[e.from] + 1;
                p.via[e.to] = g_.id_of(e);
                queue.push(e.to);
            }
        return p.reaches(sink);
    }

public:
    explicit FlowNetwork(int n) : g_(n) {}
    void pipe(int a, int b, int cap) { g_.add(a, b, cap); g_.add(b, a, 0); }
    int max_flow(int src, int sink) {
        for (int total = 0;;) {
            Paths<int> p(g_.vertices());
            if (!bfs(src, sink, p)) return total;
            total += augment(p, sink);
        }
    }
};

} // namespace gr

using namespace gr;

// Cost of walking a w x h grid of digits from corner to corner with A*.
int grid_route(const char *cells, int w, int h) {
    Graph<int> g(w * h);
    auto cost = [cells](int v) { return cells[v] - '0'; };
    for (int y = 0; y < h; ++y)
        for (int x = 0; x < w; ++x) {
            int v = y * w + x;
            if (x + 1 < w) g.add(v, v + 1, cost(v + 1));
            if (x > 0) g.add(v, v - 1, cost(v - 1));
            if (y + 1 < h) g.add(v, v + w, cost(v + w));
            if (y > 0) g.add(v, v - w, cost(v - w));
        }
    int goal = w * h - 1;
    auto guide = [=](int v) { return (w - 1 - v % w) + (h - 1 - v / w); };
    return best_first(g, 0, goal, guide).dist[goal];
}

int assign_jobs(const char *const *wants, int workers, int jobs) {
    FlowNetwork net(workers + jobs + 2);
    int src = workers + jobs, sink = src + 1;
    for (int w = 0; w < workers; ++w) {
        net.pipe(src, w, 1);
        for (const char *p = wants[w]; *p; ++p) net.pipe(w, workers + (*p - 'a'), 1);
    }
    for (int j = 0; j < jobs; ++j) net.pipe(workers + j, sink, 1);
    return net.max_flow(src, sink);
}

static int check_paths() {
    Graph<double> roads(6);
    roads.add_both(0, 1, 7.5);
    roads.add_both(0, 2, 2.0);
    roads.add_both(2, 1, 3.25);
    roads.add_both(1, 3, 1.0);
    roads.add_both(2, 3, 8.0);
    Paths<double> p = dijkstra(roads, 0);
    Seq<int> trail = p.trace(roads, 3);
    if (p.dist[3] != 6.25 || trail.size() != 4 || trail[1] != 2 || p.reaches(4) || p.trace(roads, 5).size()) return 1;
    Seq<int> tree;
    if (kruskal(roads, tree) != 6.25 || tree.size() != 3 || weak_components(roads) != 3) return 2;
    Graph<int> debt(4);
    debt.add(0, 1, 5);
    debt.add(1, 2, -3);
    debt.add(2, 3, 1);
    debt.add(0, 3, 4);
    Paths<int> q(4), r(4);
    if (!bellman_ford(debt, 0, q) || q.dist[3] != 3) return 3;
    debt.add(3, 1, 1);
    if (bellman_ford(debt, 0, r)) return 4;
    return grid_route("1163751742" "1381373672" "2136511328", 10, 3) == 33 ? 0 : 5;
}

extern "C" int graph_selftest() {
    if (int r = check_paths()) return r;
    Graph<int> g(8);
    const int arcs[][2] = {{0, 1}, {1, 2}, {2, 0}, {2, 3}, {3, 4}, {4, 5}, {5, 3}, {6, 5}, {6, 7}};
    for (auto &a : arcs) g.add(a[0], a[1]);
    int n = 0;
    Seq<int> comp = strong_components(g, n);
    if (n != 4 || comp[0] != comp[2] || comp[3] != comp[5] || comp[0] >= comp[3] || comp[6] >= comp[7]) return 10;
    Seq<int> order, cyclic;
    if (topological(g, cyclic)) return 11;
    Graph<int> condensed(n);
    for (int id = 0; id < g.edges(); ++id)
        if (comp[g.edge(id).from] != comp[g.edge(id).to]) condensed.add(comp[g.edge(id).from], comp[g.edge(id).to]);
    if (!topological(condensed, order) || order[0] != 0 || weak_components(condensed) != 1) return 12;
    const char *wants[] = {"ab", "a", "a", "bcd", "c"};
    if (assign_jobs(wants, 5, 4) != 4) return 13;
    DisjointSets sets(5);
    return sets.unite(0, 1) && sets.unite(1, 2) && !sets.unite(0, 2) && sets.size(2) == 3 ? 0 : 14;
}
