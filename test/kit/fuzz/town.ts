/** The database that the fuzzer asks: every kind of column, relationships both ways, and permissions of two roles. */
export const TOWN_SQL = `
create type mood as enum ('calm', 'wild');
create domain small_price as numeric(8, 2) check (value >= 0);
create domain town_name as text check (length(value) < 200);
create table town (
  id int generated always as identity primary key,
  name town_name not null unique,
  mayor_id int,
  founded date,
  area float8,
  tags text[],
  facts jsonb
);
create table person (
  id serial primary key,
  town_id int references town,
  name text not null,
  nick varchar(20),
  born timestamptz default now(),
  mood mood default 'calm',
  age smallint,
  money small_price default 0,
  score numeric,
  big bigint,
  ratio real,
  alive boolean default true,
  key uuid,
  raw bytea,
  doc json,
  facts jsonb default '{}',
  numbers int[],
  moods mood[],
  span int4range,
  wait interval,
  address inet,
  bits bit(4),
  shout text generated always as (upper(name)) stored,
  unique (town_id, name)
);
alter table town add foreign key (mayor_id) references person;
create view grown_up as select id, name, age from person where age >= 18;
create view quiet as select 1 as id;
create table vault (id int primary key, town_id int references town, secret text not null);
create table landmark (id int primary key, name text not null);
insert into landmark values (1, 'bridge'), (2, 'tower');
insert into town (name) overriding system value values ('kept');
create type spot as (name text, at int4range);
create function mingle(age smallint, mood mood default 'calm', facts jsonb default null, moods mood[] default null,
    spot spot default null, price small_price default 1, born timestamptz default null, raw bytea default null)
  returns table (age smallint, mood mood, facts jsonb, moods mood[], spot spot, price small_price, born timestamptz, raw bytea)
  language sql stable as 'select age, mood, facts, moods, spot, price, born, raw';
create function tally(variadic numbers numeric[]) returns numeric language sql immutable as
  'select sum(n) from unnest(numbers) n';
create procedure measure(inout bits bit(4), inout wait interval default '1 day') language plpgsql as
  'begin bits := ~bits; wait := wait * 2; end';
insert into vault select i, 1, md5(i::text) from generate_series(1, 50) i;
`

/** Between rounds: rows to work on, whatever the round before did to them. */
export const REFILL_SQL = `
update town set mayor_id = null;
delete from person;
delete from town where id not in (select town_id from vault);
insert into person (town_id, name, age, score, big, key, doc, numbers)
select 1, 'person ' || i, i % 90, i / 3.0, i, gen_random_uuid(), '{"a": 1}', array[i, null] from generate_series(1, 40) i;
`

const using = (column: string) => ({ foreign_key_constraint_on: column })
const arrayOf = (table: string, column: string) => ({ foreign_key_constraint_on: { table, column } })
const OWN = { town_id: 'X-Service-User-Id' }

/** As `replace_metadata` takes it. The roles have no permission on the vault, and read the landmarks. */
export const TOWN_METADATA = {
  tables: [
    {
      table: 'town',
      object_relationships: [{ name: 'mayor', using: using('mayor_id') }],
      array_relationships: [
        { name: 'people', using: arrayOf('person', 'town_id') },
        { name: 'treasure', using: arrayOf('vault', 'town_id') },
        {
          name: 'namesakes',
          using: { manual_configuration: { remote_table: 'grown_up', column_mapping: { name: 'name' } } },
        },
      ],
      select_permissions: [
        { role: 'user', permission: { columns: '*', filter: { id: 'X-Service-User-Id' }, allow_aggregations: true } },
        { role: 'anonymous', permission: { columns: ['name', 'tags'], filter: {}, limit: 3 } },
      ],
      insert_permissions: [{ role: 'user', permission: { check: { name: { $ne: 'vault' } }, allow_upsert: true } }],
      update_permissions: [{ role: 'user', permission: { columns: ['name', 'area'], filter: {} } }],
    },
    {
      table: 'person',
      object_relationships: [{ name: 'town', using: using('town_id') }],
      array_relationships: [{ name: 'rules', using: arrayOf('town', 'mayor_id') }],
      select_permissions: [
        { role: 'user', permission: { columns: '*', filter: OWN, allow_aggregations: true } },
        { role: 'anonymous', permission: { columns: ['id', 'name', 'town_id'], filter: { alive: true }, limit: 5 } },
      ],
      insert_permissions: [
        {
          role: 'user',
          permission: {
            check: { town: { id: { $gt: 0 } } },
            set: { town_id: 'X-Service-User-Id' },
            allow_upsert: true,
          },
        },
      ],
      update_permissions: [
        { role: 'user', permission: { columns: '*', filter: OWN, check: { age: { $lt: 200 } }, set: { alive: true } } },
      ],
      delete_permissions: [{ role: 'user', permission: { filter: { ...OWN, name: { $like: 'person%' } } } }],
    },
    { table: 'grown_up', select_permissions: [{ role: 'user', permission: { columns: '*', filter: {} } }] },
    { table: 'vault', object_relationships: [{ name: 'town', using: using('town_id') }] },
    { table: 'landmark', select_permissions: [{ role: 'user', permission: { columns: '*', filter: {} } }] },
  ],
  functions: ['mingle', 'tally', 'measure'].map((name) => ({ function: name, permissions: [{ role: 'user' }] })),
  query_templates: [],
}

/** Names that lead somewhere, for mutations that go deeper than the first check. */
export const NAMES: readonly string[] = [
  ['town', 'person', 'grown_up', 'vault', 'mayor', 'people', 'treasure', 'namesakes', 'rules'],
  ['id', 'name', 'nick', 'mayor_id', 'town_id', 'founded', 'area', 'tags', 'facts', 'born', 'mood', 'age', 'money'],
  ['score', 'big', 'ratio', 'alive', 'key', 'raw', 'doc', 'numbers', 'moods', 'span', 'wait', 'address', 'bits'],
  ['shout', 'people.id', 'mayor.town.name', 'table', 'columns', 'where', 'order_by', 'limit', 'offset', 'distinct'],
  ['objects', 'returning', 'on_conflict', 'constraint', 'constraint_on', '$set', '$inc', '$mul', '$default', 'type'],
  ['$and', '$or', '$not', '$exists', '_table', '_where', '$eq', '$ne', '$in', '$nin', '$gt', '$like', '$similar'],
  ['$ilike', '$is_null', '$ceq', '$clt', '$contains', '$contained_in', '$has_key', '$has_keys_any', '$regex'],
  ['_eq', '_in', '_similar', '_contains', '_has_keys_all', '_cast', 'args', 'bulk', 'select', 'insert', 'count'],
  ['filter', 'check', 'set', 'role', 'using', 'permission', 'alias', 'nulls', 'first', 'desc', '*', 'user', 'admin'],
].flat()
