-- The same two functions in PL/pgSQL, which keeps their plans: as SQL functions they were planned at every charge, for longer
-- than they ran.

-- Tells the merchant: one row per copy to be sent, none for a notification that shall be lost.
create or replace function sandbox.notify(
  event_id text, type text, reference text, refund_reference text, service_now timestamptz, copies integer, delay interval
) returns void
language plpgsql as $$
begin
  for n in 1 .. copies loop
    insert into sandbox.delivery (event_id, type, reference, refund_reference, happened_at, due_at)
    values (notify.event_id, notify.type, notify.reference, notify.refund_reference, service_now, clock_timestamp() + delay * n);
  end loop;
end $$;

-- The one rendering of a payment, for answers, lookups and lists.
create or replace function sandbox.render_payment(p sandbox.payment) returns json
language plpgsql stable as $$
begin
  return json_build_object(
    'id', p.id,
    'reference', p.reference,
    'account_id', p.account_id,
    'amount', p.amount,
    'currency', p.currency,
    'status', p.status,
    'decline_code', p.decline_code,
    'amount_refunded', p.amount_refunded,
    'refunds', (
      select coalesce(json_agg(sandbox.render_refund(r, p.currency) order by r.created_at, r.id), '[]')
      from sandbox.refund as r
      where r.payment_id = p.id
    ),
    'disputed', coalesce(p.dispute_status <> 'won', false),
    'dispute', case when p.dispute_status is not null then json_build_object(
      'status', p.dispute_status,
      'amount', p.dispute_amount,
      'opened_at', sandbox.render_instant(p.dispute_opened_at),
      'closed_at', sandbox.render_instant(p.dispute_closed_at)
    ) end,
    'livemode', false,
    'created_at', sandbox.render_instant(p.created_at)
  );
end $$;
