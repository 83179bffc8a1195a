/** Keywords of many workspaces and of one large one, with what is kept of them; `numbers` names as many as each table gets. */
export const batchRows = (numbers: string): string[] => [
  `insert into batch.keyword (workspace_id, key, display, created_at) select 'ws_stored_' || g % 200, 'stored ' || g, 'stored ' || g, now() from ${numbers}`,
  `insert into batch.rank (workspace_id, keyword_id, engine, device, location, day, status, position, searched_depth, checked_at)
   select workspace_id, id, 'naver', 'mobile', 'KR', '2030-01-14'::date - d, 'ranked', 1 + (id + d) % 90, 100, '2030-01-14'::timestamptz - d * interval '1 day'
   from batch.keyword, generate_series(0, 4) d where key like 'stored %'`,
  // One workspace of many keywords, all of which moved.
  `insert into batch.keyword (workspace_id, key, display, created_at) select 'ws_moving', 'moving ' || g, 'moving ' || g, now() from ${numbers}`,
  `insert into batch.rank (workspace_id, keyword_id, engine, device, location, day, status, position, searched_depth, checked_at)
   select workspace_id, id, 'naver', 'mobile', 'KR', '2030-01-14'::date - d, 'ranked', 1 + d, 100, '2030-01-14'
   from batch.keyword, generate_series(0, 9) d where workspace_id = 'ws_moving'`,
  `insert into batch.dropped_best_rank (workspace_id, keyword_id, engine, device, location, position, day)
   select workspace_id, id, 'naver', 'mobile', 'KR', 1, '2027-01-14' from batch.keyword where key like 'stored %'`,
  `insert into batch.monthly_volume (key, source, month, volume, volume_min, volume_max, quality, days_observed, updated_at)
   select 'stored ' || g, 'naver', '2029-12-01', g, g, g, 'reported', 31, now() from ${numbers}`,
  `insert into batch.volume_observation (key, source, day, kind, volume, revision)
   select 'stored ' || g, 'naver', '2029-12-01', 'month', g, 1 from ${numbers}`,
  `insert into batch.dirty_month (key, source, month) select 'stored ' || g, 'naver', '2029-12-01' from ${numbers}`,
  `insert into batch.keyword_trend (key, source, every, from_day, to_day, series, asked_on)
   select 'stored ' || g, 'naver_datalab', 'month', '2029-11-01', '2029-12-31', '[["2029-11-01", 100], ["2029-12-01", 71.5]]', '2030-01-02' from ${numbers}`,
  `insert into batch.prediction (workspace_id, keyword_id, engine, device, location, day, model_id, horizon_days, rise, hold, fall, predicted, usable_days, naive_sign, features, contributions, predicted_at, outcome, settled_at)
   select k.workspace_id, k.id, 'naver', 'mobile', 'KR', '2030-01-10', m.id, 1, 0.2, 0.5, 0.3, 'hold', 5, 0, '{}', '{}', now(), 'hold', now()
   from batch.keyword k, (select id from batch.model limit 1) m where k.key like 'stored %'`,
  `insert into batch.run (id, task, trigger, status, queued_at, started_at, finished_at, leased_until)
   select 'run_stored_' || g, 'aggregate_volumes', 'schedule', 'succeeded', '2029-01-01'::timestamptz + g * interval '1 minute', '2029-01-01', '2029-01-01', '2029-01-01' from ${numbers}`,
  `insert into batch.tracker (workspace_id, id, site, match, engine, device, location, depth, source, every, window_from, window_to, zone, anchor_day, next_day, next_plan_at, created_at)
   select 'ws_tracked_' || g, 'main', 'example.com', 'host', 'naver', 'mobile', 'KR', 10, 'serpapi', 'day', '00:00', '24:00', 'UTC', '2030-01-01', '2040-01-01', '2040-01-01', now() from ${numbers}`,
  `insert into batch.tracker (workspace_id, id, site, match, engine, device, location, depth, source, every, window_from, window_to, zone, anchor_day, next_day, next_plan_at, created_at)
   values ('ws_moving', 'main', 'example.com', 'host', 'naver', 'mobile', 'KR', 10, 'serpapi', 'day', '00:00', '24:00', 'UTC', '2030-01-01', '2040-01-01', '2040-01-01', now())`,
  // Days that are over, one whose slots all lie ahead, and one that was ordered and may take its time.
  ...['done', 'due', 'ordered'].map(
    (
      status,
      at,
    ) => `insert into batch.rank_check (workspace_id, tracker_id, day, keyword_id, source, due_at, closes_at, status)
     select workspace_id, 'main', '2030-01-14'::date + ${at}, id, 'serpapi', '2039-01-01'::timestamptz + id * interval '1 second', '2039-06-01', '${status}'
     from batch.keyword where workspace_id = 'ws_moving'`,
  ),
  ...['done', 'waiting'].map(
    (
      state,
      at,
    ) => `insert into batch.rank_order (workspace_id, tracker_id, day, keyword_id, number, source, tag, order_id, engine, device, location, depth, state, ordered_at, lookup_by, spent_on)
     select workspace_id, tracker_id, day, keyword_id, ${at + 1}, 'dataforseo_queue', 'rl-${state}-' || keyword_id, 'o' || keyword_id, 'naver', 'mobile', 'KR', 10, '${state}',
       '2039-01-01', '2039-01-02', '2030-01-16' from batch.rank_check where status = 'ordered'`,
  ),
  `insert into batch.source_spending (source, day, scope, spent)
   select 'serpapi', '2030-01-14'::date - g / 40, 'workspace ws_stored_' || g % 40, 1 from ${numbers}`,
  `insert into batch.volume_check (source, key, month, status, spent_on)
   select 'naver_searchad', 'stored ' || g, '2029-12-01', 'done', '2030-01-02' from ${numbers}`,
]
