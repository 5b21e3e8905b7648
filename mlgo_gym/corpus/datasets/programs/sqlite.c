/* Fills a database in memory, and runs queries with joins, groups, subqueries, text and updates. */
#include <sqlite3.h>
#include <stdio.h>

#include "../workload.h"

static const char *const queries[] = {
    "create index by_city on people(city, age)",
    "select city, count(*), round(avg(age), 2), max(name) from people group by city order by 2 desc, 1 limit 5",
    "select p.name, sum(o.price) s from people p join orders o on o.person = p.id where p.age > 40"
    " group by p.id order by s desc, p.name limit 5",
    "select count(*) from people where name like '%an%' or upper(name) glob 'T*E'",
    "select count(*), total(price) from orders where person in (select id from people where age between 20 and 30)",
    "update orders set price = price * 2 where person % 7 = 3",
    "delete from people where id % 11 = 5",
    "with recursive n(i, f) as (select 1, 1 union all select i + 1, (f * 7 + i) % 10007 from n where i < 20000)"
    " select sum(f), max(i) from n",
    "select a.city, b.city from people a, people b where a.age = b.age and a.id < 300 and b.id < 300 and a.name < b.name"
    " order by a.name, b.name limit 3",
    "select round(sum(price), 2), count(*) from orders left join people on people.id = person where people.id is null",
};

static int print_row(void *nothing, int columns, char **values, char **names) {
  (void)nothing, (void)names;
  for (int i = 0; i < columns; i++)
    printf("%s%s", values[i] ? values[i] : "null", i + 1 < columns ? " " : "\n");
  return 0;
}

int main(void) {
  sqlite3 *database;
  sqlite3_stmt *person, *order;
  char word[16];
  if (sqlite3_open(":memory:", &database))
    return 1;
  sqlite3_exec(database,
               "create table people(id integer primary key, name text, city text, age integer);"
               "create table orders(person integer, price real, note text); begin",
               0, 0, 0);
  sqlite3_prepare_v2(database, "insert into people values(?, ?, ?, ?)", -1, &person, 0);
  sqlite3_prepare_v2(database, "insert into orders values(?, ?, ?)", -1, &order, 0);
  for (int id = 0; id < 4000; id++) {
    make_word(draw(2000), word);
    sqlite3_bind_int(person, 1, id);
    sqlite3_bind_text(person, 2, word, -1, SQLITE_TRANSIENT);
    make_word(draw(60), word);
    sqlite3_bind_text(person, 3, word, -1, SQLITE_TRANSIENT);
    sqlite3_bind_int(person, 4, (int)draw(90));
    sqlite3_step(person);
    sqlite3_reset(person);
    for (unsigned i = draw(5); i > 0; i--) {
      sqlite3_bind_int(order, 1, (int)draw(4000));
      sqlite3_bind_double(order, 2, draw(10000) / 4.0);
      sqlite3_bind_text(order, 3, word, -1, SQLITE_TRANSIENT);
      sqlite3_step(order);
      sqlite3_reset(order);
    }
  }
  sqlite3_finalize(person);
  sqlite3_finalize(order);
  sqlite3_exec(database, "commit", 0, 0, 0);
  for (size_t i = 0; i < sizeof queries / sizeof *queries; i++)
    if (sqlite3_exec(database, queries[i], print_row, 0, 0)) {
      fprintf(stderr, "%s\n", sqlite3_errmsg(database));
      return 1;
    }
  return sqlite3_close(database);
}
