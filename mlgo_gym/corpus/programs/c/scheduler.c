/* A discrete-event simulation of an operating-system scheduler: cancellable timers in a heap, priority queues, processes and locks. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TASKS = 32, MAX_LOCKS = 8, MAX_TIMERS = 256, LEVELS = 4, NO_ID = -1, BASE_SLICE = 4 };

typedef enum { TASK_FREE, TASK_READY, TASK_RUNNING, TASK_SLEEPING, TASK_BLOCKED, TASK_DONE } task_state;

/* What a task does: a fixed script of steps. */
typedef enum { STEP_COMPUTE, STEP_SLEEP, STEP_LOCK, STEP_UNLOCK, STEP_SPAWN, STEP_LOOP, STEP_EXIT } step_kind;

typedef struct {
    step_kind kind;
    int arg;
} step;

typedef struct {
    task_state state;
    const step *script;
    int pc;
    int work_left; /* of the current computation */
    int slice_left, loops_left;
    int base_level, level;
    int next; /* in a ready or wait queue */
    uint64_t ready_since, started, finished;
    uint64_t run_time, wait_time;
} task;

typedef struct {
    int head, tail;
} queue;

typedef struct {
    int owner;
    queue waiters;
    int contended;
} lock;

struct sim;
typedef void (*timer_fn)(struct sim *s, int arg);

typedef struct {
    uint64_t when;
    uint64_t order; /* first come, first served within a tick */
    timer_fn fire;
    int arg;
    int heap_pos; /* NO_ID while unused */
    int next_free;
} timer;

typedef struct sim {
    uint64_t now, next_order;
    task tasks[MAX_TASKS];
    lock locks[MAX_LOCKS];
    queue ready[LEVELS];
    timer timers[MAX_TIMERS];
    int heap[MAX_TIMERS];
    int heap_size;
    int free_timer;
    int running, slice_timer;
    uint64_t idle_time;
    int switches;
    int live;
    bool deadlocked;
} sim;

uint64_t sim_total_run_time(const sim *s);
int scheduler_selftest(void);

static int min_int(int a, int b) { return a < b ? a : b; }
static int clamp_level(int level) { return level < 0 ? 0 : min_int(level, LEVELS - 1); }

/* ---- timers: a binary heap of indices, where each timer knows its place ---- */

static timer *heap_timer(sim *s, int pos) { return &s->timers[s->heap[pos]]; }
static int heap_parent(int pos) { return (pos - 1) / 2; }
static bool fires_before(const timer *a, const timer *b) { return a->when != b->when ? a->when < b->when : a->order < b->order; }

static void heap_put(sim *s, int pos, int id) {
    s->heap[pos] = id;
    s->timers[id].heap_pos = pos;
}

static void heap_swap(sim *s, int a, int b) {
    int id = s->heap[a];
    heap_put(s, a, s->heap[b]);
    heap_put(s, b, id);
}

static void heap_up(sim *s, int pos) {
    while (pos > 0 && fires_before(heap_timer(s, pos), heap_timer(s, heap_parent(pos)))) {
        heap_swap(s, pos, heap_parent(pos));
        pos = heap_parent(pos);
    }
}

static int earlier_child(sim *s, int pos) {
    int left = 2 * pos + 1;
    if (left + 1 < s->heap_size && fires_before(heap_timer(s, left + 1), heap_timer(s, left))) return left + 1;
    return left;
}

static void heap_down(sim *s, int pos) {
    while (2 * pos + 1 < s->heap_size) {
        int child = earlier_child(s, pos);
        if (!fires_before(heap_timer(s, child), heap_timer(s, pos))) break;
        heap_swap(s, pos, child);
        pos = child;
    }
}

static void heap_remove(sim *s, int pos) {
    int last = --s->heap_size;
    if (pos == last) return;
    heap_put(s, pos, s->heap[last]);
    heap_up(s, pos);
    heap_down(s, pos);
}

static int alloc_timer(sim *s) {
    int id = s->free_timer;
    if (id != NO_ID) s->free_timer = s->timers[id].next_free;
    return id;
}

static void release_timer(sim *s, int id) {
    s->timers[id].heap_pos = NO_ID;
    s->timers[id].next_free = s->free_timer;
    s->free_timer = id;
}

static bool timer_pending(const sim *s, int id) { return id >= 0 && id < MAX_TIMERS && s->timers[id].heap_pos != NO_ID; }

int sim_add_timer(sim *s, uint64_t delay, timer_fn fire, int arg) {
    int id = alloc_timer(s);
    if (id == NO_ID) return NO_ID;
    s->timers[id] = (timer){.when = s->now + delay, .order = s->next_order++, .fire = fire, .arg = arg};
    heap_put(s, s->heap_size++, id);
    heap_up(s, s->timers[id].heap_pos);
    return id;
}

bool sim_cancel_timer(sim *s, int id) {
    if (!timer_pending(s, id)) return false;
    heap_remove(s, s->timers[id].heap_pos);
    release_timer(s, id);
    return true;
}

static uint64_t next_event_time(sim *s) { return s->heap_size ? heap_timer(s, 0)->when : UINT64_MAX; }

static void fire_next(sim *s) {
    int id = s->heap[0];
    timer t = s->timers[id];
    heap_remove(s, 0);
    release_timer(s, id);
    t.fire(s, t.arg);
}

/* ---- queues of tasks, linked through the tasks ---- */

static void queue_init(queue *q) { *q = (queue){NO_ID, NO_ID}; }
static bool queue_empty(const queue *q) { return q->head == NO_ID; }

static void queue_push(sim *s, queue *q, int id) {
    s->tasks[id].next = NO_ID;
    if (queue_empty(q))
        q->head = id;
    else
        s->tasks[q->tail].next = id;
    q->tail = id;
}

static int queue_pop(sim *s, queue *q) {
    int id = q->head;
    if (id == NO_ID) return NO_ID;
    q->head = s->tasks[id].next;
    if (queue_empty(q)) q->tail = NO_ID;
    return id;
}

/* ---- tasks ---- */

static task *get_task(sim *s, int id) { return &s->tasks[id]; }
static bool is_running(const sim *s) { return s->running != NO_ID; }
static int slice_of(int level) { return BASE_SLICE << level; } /* lower priority, longer slices */

static void make_ready(sim *s, int id) {
    task *t = get_task(s, id);
    t->state = TASK_READY;
    t->ready_since = s->now;
    queue_push(s, &s->ready[t->level], id);
}

static int best_ready_level(const sim *s) {
    for (int level = 0; level < LEVELS; level++)
        if (!queue_empty(&s->ready[level])) return level;
    return LEVELS;
}

/* A task that uses up its slices sinks; one that sleeps or blocks early rises to its base level again. */
static void sink(task *t) { t->level = clamp_level(t->level + 1); }
static void rise(task *t) { t->level = t->base_level; }

static int find_free_task(const sim *s) {
    for (int id = 0; id < MAX_TASKS; id++)
        if (s->tasks[id].state == TASK_FREE) return id;
    return NO_ID;
}

int sim_spawn(sim *s, const step *script, int level) {
    int id = find_free_task(s);
    if (id == NO_ID) return NO_ID;
    *get_task(s, id) = (task){.script = script, .base_level = clamp_level(level), .level = clamp_level(level), .loops_left = -1,
                              .started = s->now};
    s->live++;
    make_ready(s, id);
    return id;
}

static void wake(sim *s, int id) {
    rise(get_task(s, id));
    make_ready(s, id);
}

static void stop_running(sim *s, task_state state) {
    get_task(s, s->running)->state = state;
    s->running = NO_ID;
}

static void finish(sim *s) {
    get_task(s, s->running)->finished = s->now;
    s->live--;
    stop_running(s, TASK_DONE);
}

/* ---- locks ---- */

static bool lock_free(const lock *l) { return l->owner == NO_ID; }

static void acquire(sim *s, int index) {
    lock *l = &s->locks[index];
    if (lock_free(l)) {
        l->owner = s->running;
        return;
    }
    l->contended++;
    queue_push(s, &l->waiters, s->running);
    stop_running(s, TASK_BLOCKED);
}

static void release(sim *s, int index) {
    lock *l = &s->locks[index];
    if (l->owner != s->running) return;
    rise(get_task(s, s->running));
    l->owner = queue_pop(s, &l->waiters);
    if (!lock_free(l)) wake(s, l->owner);
}

/* ---- the interpreter of scripts ---- */

static void on_wake(sim *s, int id) { wake(s, id); }
static void on_slice_end(sim *s, int id);

static void start_sleep(sim *s, int ticks) {
    int id = s->running;
    stop_running(s, TASK_SLEEPING);
    if (sim_add_timer(s, (uint64_t)ticks, on_wake, id) == NO_ID) wake(s, id); /* out of timers: do not sleep */
}

static void start_compute(sim *s, task *t, int ticks) {
    if (!t->work_left) t->work_left = ticks;
    int burst = min_int(t->work_left, t->slice_left);
    s->slice_timer = sim_add_timer(s, (uint64_t)burst, on_slice_end, s->running);
}

static void do_loop(task *t, int times) {
    if (t->loops_left < 0) t->loops_left = times;
    t->pc = t->loops_left-- > 0 ? 0 : t->pc + 1;
}

/* Runs steps that take no time, until the task computes, waits or ends. */
static void continue_task(sim *s) {
    while (is_running(s)) {
        task *t = get_task(s, s->running);
        const step *now = &t->script[t->pc];
        switch (now->kind) {
        case STEP_COMPUTE: start_compute(s, t, now->arg); return;
        case STEP_SLEEP: t->pc++; start_sleep(s, now->arg); break;
        case STEP_LOCK: t->pc++; acquire(s, now->arg); break; /* a waiter is handed the lock later */
        case STEP_UNLOCK: t->pc++; release(s, now->arg); break;
        case STEP_SPAWN: t->pc++; sim_spawn(s, t->script + now->arg, t->base_level); break;
        case STEP_LOOP: do_loop(t, now->arg); break;
        case STEP_EXIT: finish(s); break;
        }
    }
}

static void dispatch(sim *s) {
    int level = best_ready_level(s);
    if (is_running(s) || level == LEVELS) return;
    int id = queue_pop(s, &s->ready[level]);
    task *t = get_task(s, id);
    t->state = TASK_RUNNING;
    t->wait_time += s->now - t->ready_since;
    t->slice_left = slice_of(t->level);
    s->running = id;
    s->switches++;
    continue_task(s);
}

/* Charges the task for time it ran, and ends its step when the work is done. */
static void account(task *t, int ran) {
    t->run_time += (uint64_t)ran;
    t->slice_left -= ran;
    t->work_left -= ran;
    if (t->work_left == 0) t->pc++;
}

static void yield_cpu(sim *s) {
    int id = s->running;
    stop_running(s, TASK_READY);
    make_ready(s, id);
}

static void on_slice_end(sim *s, int id) {
    task *t = get_task(s, id);
    s->slice_timer = NO_ID;
    account(t, min_int(t->work_left, t->slice_left));
    if (t->slice_left > 0) {
        continue_task(s);
    } else {
        sink(t);
        yield_cpu(s);
    }
}

/* A more important task that became ready takes the processor at once. */
static void preempt(sim *s) {
    if (!is_running(s) || s->slice_timer == NO_ID) return;
    task *t = get_task(s, s->running);
    if (best_ready_level(s) >= t->level) return;
    int planned = min_int(t->work_left, t->slice_left);
    account(t, planned - (int)(s->timers[s->slice_timer].when - s->now));
    sim_cancel_timer(s, s->slice_timer);
    s->slice_timer = NO_ID;
    yield_cpu(s);
}

static void settle(sim *s) {
    preempt(s);
    while (!is_running(s) && best_ready_level(s) < LEVELS) dispatch(s);
}

/* Runs until everything is done (true), the time is over, or nothing can ever happen again. */
bool sim_run(sim *s, uint64_t until) {
    settle(s);
    while (s->live > 0 && next_event_time(s) <= until) {
        uint64_t when = next_event_time(s);
        if (!is_running(s)) s->idle_time += when - s->now;
        s->now = when;
        fire_next(s);
        settle(s);
    }
    s->deadlocked = s->live > 0 && s->heap_size == 0;
    return s->live == 0;
}

void sim_init(sim *s) {
    memset(s, 0, sizeof *s);
    s->running = s->slice_timer = s->free_timer = NO_ID;
    for (int i = MAX_TIMERS - 1; i >= 0; i--) release_timer(s, i);
    for (int i = 0; i < LEVELS; i++) queue_init(&s->ready[i]);
    for (int i = 0; i < MAX_LOCKS; i++) {
        s->locks[i].owner = NO_ID;
        queue_init(&s->locks[i].waiters);
    }
}

bool sim_check(const sim *s) {
    for (int pos = 0; pos < s->heap_size; pos++) {
        if (s->timers[s->heap[pos]].heap_pos != pos) return false;
        if (pos && fires_before(&s->timers[s->heap[pos]], &s->timers[s->heap[heap_parent(pos)]])) return false;
    }
    return sim_total_run_time(s) + s->idle_time <= s->now;
}

uint64_t sim_total_run_time(const sim *s) {
    uint64_t sum = 0;
    for (int id = 0; id < MAX_TASKS; id++) sum += s->tasks[id].run_time;
    return sum;
}

/* ---- self test ---- */

static uint64_t last_fired;
static int fired_count;

static void on_test(sim *s, int arg) {
    fired_count += s->now >= last_fired && arg % 3 != 0;
    last_fired = s->now;
}

static int test_timers(sim *s) {
    int ids[100];
    uint32_t seed = 7;
    sim_init(s);
    fired_count = 0;
    last_fired = 0;
    for (int i = 0; i < 100; i++) {
        seed = seed * 1103515245u + 12345u;
        ids[i] = sim_add_timer(s, seed >> 20, on_test, i);
    }
    for (int i = 0; i < 100; i += 3)
        if (!sim_cancel_timer(s, ids[i]) || sim_cancel_timer(s, ids[i]) || !sim_check(s)) return 1;
    while (s->heap_size) {
        s->now = next_event_time(s);
        fire_next(s);
    }
    return fired_count != 66;
}

int scheduler_selftest(void) {
    static const step batch[] = {{STEP_COMPUTE, 50}, {STEP_EXIT, 0}};
    static const step interactive[] = {{STEP_COMPUTE, 2}, {STEP_SLEEP, 5}, {STEP_LOOP, 9}, {STEP_EXIT, 0}};
    static const step locker[] = {{STEP_LOCK, 1}, {STEP_COMPUTE, 10}, {STEP_UNLOCK, 1}, {STEP_LOOP, 2}, {STEP_EXIT, 0}};
    static const step ab[] = {{STEP_LOCK, 2}, {STEP_SLEEP, 3}, {STEP_LOCK, 3}, {STEP_EXIT, 0}};
    static const step ba[] = {{STEP_LOCK, 3}, {STEP_SLEEP, 3}, {STEP_LOCK, 2}, {STEP_EXIT, 0}};
    static const step parent[] = {{STEP_SPAWN, 3}, {STEP_SPAWN, 3}, {STEP_EXIT, 0}, {STEP_COMPUTE, 7}, {STEP_EXIT, 0}};
    static sim s;
    if (test_timers(&s)) return 1;
    sim_init(&s);
    int b = sim_spawn(&s, batch, 2), i = sim_spawn(&s, interactive, 0);
    if (!sim_run(&s, 1000) || !sim_check(&s) || s.tasks[b].run_time != 50 || s.tasks[i].run_time != 20) return 2;
    if (s.tasks[i].wait_time != 0 || s.tasks[i].finished != 70 || s.now != 70 || s.idle_time != 0) return 3;
    sim_init(&s);
    for (int n = 0; n < 4; n++) sim_spawn(&s, locker, n);
    if (!sim_run(&s, 1000) || sim_total_run_time(&s) != 120 || s.locks[1].contended == 0 || !lock_free(&s.locks[1])) return 4;
    sim_init(&s);
    sim_spawn(&s, ab, 0);
    sim_spawn(&s, ba, 1);
    if (sim_run(&s, 1000) || !s.deadlocked) return 5;
    sim_init(&s);
    sim_spawn(&s, parent, 1);
    if (!sim_run(&s, 100) || s.now != 14) return 6;
    return sim_spawn(&s, batch, 9) == NO_ID || sim_run(&s, 20) || s.now > 20 ? 7 : 0;
}
