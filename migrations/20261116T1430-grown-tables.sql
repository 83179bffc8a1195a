-- For /upcoming at depth: what was told on an earlier page comes again after its interval, and the intervals are few.
create index subscription_by_interval on billing.subscription (interval_unit, interval_count, next_billing_at, id)
  where status in ('active', 'trialing');
-- The order of /upcoming, to the last place, so that a page begins where the one before ended.
create index subscription_upcoming on billing.subscription (next_billing_at, id) where status in ('active', 'trialing');
drop index billing.subscription_due;

-- Events of one type, newest first: of a rare one there may be none in millions.
create index event_by_type on billing.event (type, id desc);
-- Erasing an account looks for its refunds' notes and for all that was set up for it.
create index refund_noted on billing.refund (account_id) where note is not null;
create index setup_of_account on billing.setup (account_id);
-- What was done on a day, and the newest run of a task.
create index audit_by_time on platform.audit (at);
create index run_by_task on batch.run (task, id desc);
