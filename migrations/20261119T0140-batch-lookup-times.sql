-- One word per clock, as in billing: `lookup_by` is service time, `next_lookup_at` real time. No release has these columns
-- under another name, so no statement of a former one misses them.
alter table batch.rank_order rename column look_at to lookup_by;
alter table batch.source rename column next_look_at to next_lookup_at;
comment on column batch.rank_order.lookup_by is 'service time: from then on its source is asked whether the results are there';
comment on column batch.source.next_lookup_at is 'real time: the next free place in the line of lists of ready orders';
