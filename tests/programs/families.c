/* Functions of several layers that call each other often: some calls are better kept, others better inlined. */
typedef struct { int *data; int size, room; } List;
void fail(const char *text);
void *grow(void *old, unsigned long bytes);
static int bounded(int value, int low, int high) { return value < low ? low : value > high ? high : value; }
static void reserve(List *list, int room) {
    if (room <= list->room) return;
    int wanted = bounded(list->room * 2, room, 1 << 20);
    if (wanted < room) fail("too many");
    list->data = grow(list->data, sizeof(int) * wanted);
    list->room = wanted;
}
static void push(List *list, int value) { reserve(list, list->size + 1); list->data[list->size++] = value; }
static int at(const List *list, int index) {
    if (index < 0 || index >= list->size) fail("outside");
    return list->data[index];
}
static int largest(const List *list) {
    int best = at(list, 0);
    for (int i = 1; i < list->size; i++) if (at(list, i) > best) best = at(list, i);
    return best;
}
static int smallest(const List *list) {
    int best = at(list, 0);
    for (int i = 1; i < list->size; i++) if (at(list, i) < best) best = at(list, i);
    return best;
}
static void append(List *list, const List *more) { for (int i = 0; i < more->size; i++) push(list, at(more, i)); }
static int spread(const List *list) { return largest(list) - smallest(list); }
void squares(List *list, int count) { for (int i = 0; i < count; i++) push(list, bounded(i * i, 0, 99)); }
void evens(List *list, int count) { for (int i = 0; i < count; i++) push(list, 2 * i); push(list, count); }
void joined(List *list, const List *first, const List *second) { append(list, first); append(list, second); }
int widest(const List *first, const List *second) {
    int one = spread(first), two = spread(second);
    return one > two ? one : bounded(two, 0, 1000);
}
int middle(const List *list) { return bounded(at(list, list->size / 2), smallest(list), largest(list)); }
void clipped(List *list, const List *from, int low, int high) {
    for (int i = 0; i < from->size; i++) push(list, bounded(at(from, i), low, high));
    if (list->size) push(list, spread(list));
}
