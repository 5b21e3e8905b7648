-- A database in memory: inserts, joins, groups, subqueries, text, updates and a recursive query.
create table people(id integer primary key, name text, city text, age integer);
create table orders(person integer, price real, note text);
begin;
with recursive n(i, f) as (select 1, 7 union all select i + 1, (f * 16807) % 2147483647 from n where i < 6000)
insert into people select i, 'name' || f % 2003, 'city' || f / 7 % 61, f / 11 % 90 from n;
with recursive n(i, f) as (select 1, 11 union all select i + 1, (f * 16807) % 2147483647 from n where i < 12000)
insert into orders select f % 6000, f / 13 % 10000 / 4.0, 'note ' || f % 311 from n;
commit;
create index by_city on people(city, age);
select city, count(*), round(avg(age), 2), max(name) from people group by city order by 2 desc, 1 limit 5;
select p.name, sum(o.price) s from people p join orders o on o.person = p.id where p.age > 40
  group by p.id order by s desc, p.name limit 5;
select count(*) from people where name like '%11%' or upper(name) glob 'N*7';
select count(*), total(price) from orders where person in (select id from people where age between 20 and 30);
update orders set price = price * 2 where person % 7 = 3;
delete from people where id % 11 = 5;
select a.city, b.city from people a, people b where a.age = b.age and a.id < 300 and b.id < 300 and a.name < b.name
  order by a.name, b.name limit 3;
select round(sum(price), 2), count(*) from orders left join people on people.id = person where people.id is null;
select city, json_group_array(age) from (select city, age from people order by id limit 50) group by city;
