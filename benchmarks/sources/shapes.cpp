struct Shape { virtual ~Shape() {} virtual double area() const = 0; };
struct Square : Shape { double side = 0; double area() const override { return side * side; } };
template <typename T> struct List {
  T *items = nullptr; int count = 0, room = 0;
  ~List() { delete[] items; }
  void add(const T &item) {
    if (count == room) {
      T *larger = new T[room = room * 2 + 4];
      for (int i = 0; i < count; i++) larger[i] = items[i];
      delete[] items;
      items = larger;
    }
    items[count++] = item;
  }
};
static int next() { static int number = 7; return ++number; }
double total(Shape **shapes, int count) {
  List<double> areas;
  for (int i = 0; i < count; i++)
    if (auto *square = dynamic_cast<Square *>(shapes[i])) areas.add(square->area() * next());
  if (!areas.count) throw count;
  double sum = 0;
  auto add = [&](double area) { sum += area; };
  for (int i = 0; i < areas.count; i++) add(areas.items[i]);
  return sum;
}
int safely(Shape **shapes, int count) { try { return total(shapes, count) > 1; } catch (int) { return -1; } }
