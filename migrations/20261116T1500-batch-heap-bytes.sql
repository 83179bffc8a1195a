-- How many bytes the rows of a table take, wherever they lie. A table that is spread over machines is an empty shell where
-- it is asked for; the extension alone knows the size of its parts, and an ordinary PostgreSQL does not know the extension.
create function batch.heap_bytes(relation regclass) returns bigint language plpgsql stable as $$
declare
  is_spread boolean := false;
  bytes bigint;
begin
  if to_regclass('pg_catalog.pg_dist_partition') is not null then
    execute 'select exists (select from pg_catalog.pg_dist_partition where logicalrelid = $1)' into is_spread using relation;
  end if;
  if not is_spread then
    return pg_relation_size(relation);
  end if;
  execute 'select pg_catalog.citus_relation_size($1)' into bytes using relation;
  return bytes;
end $$;
