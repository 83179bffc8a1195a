-- The book of the sandbox payment provider: what it took and gave back, whom it told, and how it was asked to
-- misbehave. Billing never reads it and it never reads billing, so that both are independent truths. Any number of
-- provider processes share it; each request is one statement, and unique keys and row locks decide every race.

create schema sandbox;

create table sandbox.payment (
  id               text primary key,
  reference        text not null,              -- the merchant's own id
  copy             integer not null default 0, -- above 0 only while the duplicate_references fault is on
  account_id       text not null,
  billing_key      text not null,
  amount           bigint not null check (amount > 0),
  currency         text not null,
  description      text not null,
  status           text not null check (status in ('paid', 'declined')),
  decline_code     text check ((decline_code is null) = (status = 'paid')),
  amount_refunded  bigint not null default 0 check (amount_refunded between 0 and amount),
  dispute_status     text check (dispute_status in ('open', 'won', 'lost')),
  dispute_amount     bigint check (dispute_amount > 0),
  dispute_opened_at  timestamptz,
  dispute_closed_at  timestamptz,
  created_at       timestamptz not null,       -- service time
  changed_at       timestamptz not null,       -- service time of the last thing that happened to it
  unique (reference, copy),
  check ((dispute_status is null) = (dispute_opened_at is null) and (dispute_status is null) = (dispute_amount is null)),
  check (coalesce(dispute_status in ('won', 'lost'), false) = (dispute_closed_at is not null))
);
create index payment_by_time on sandbox.payment (created_at, id);
create index payment_by_change on sandbox.payment (changed_at, id);
create index payment_paid_by_account on sandbox.payment (account_id) where status = 'paid';

create table sandbox.refund (
  id          text primary key,
  payment_id  text not null references sandbox.payment,
  reference   text not null,
  copy        integer not null default 0,
  amount      bigint not null check (amount > 0),
  status      text not null check (status in ('succeeded', 'failed')),
  created_at  timestamptz not null,
  unique (reference, copy)
);
create index refund_by_payment on sandbox.refund (payment_id, created_at);

-- The first answer to each Idempotency-Key, for as long as the window lasts.
create table sandbox.idempotency_key (
  key            text primary key,
  fingerprint    bytea not null,               -- hash of path and body
  claimed_by     text not null,                -- the request that runs or ran
  running_until  timestamptz not null,         -- real time; past it, an unanswered first request is dead
  status         integer,                      -- null while the first request runs
  answer         text,
  created_at     timestamptz not null          -- service time: windows move with the clock
);
create index idempotency_key_age on sandbox.idempotency_key using brin (created_at);

-- Notifications to the merchant. Every instant here is real time: retries do not move with the clock.
create table sandbox.delivery (
  id                bigint generated always as identity primary key,
  event_id          text not null,             -- the webhook-id, equal on every retry and duplicate
  type              text not null,
  reference         text not null,
  refund_reference  text,
  happened_at       timestamptz not null,      -- service time, the one exception: part of what is told
  created_at        timestamptz not null default clock_timestamp(),
  due_at            timestamptz not null,
  tries             integer not null default 0,
  status            text not null default 'waiting' check (status in ('waiting', 'delivered', 'given_up'))
);
create index delivery_waiting on sandbox.delivery (due_at, id) where status = 'waiting';

create table sandbox.faults (
  one     boolean primary key default true check (one),
  faults  jsonb not null
);
insert into sandbox.faults (faults) values ('{}');

create function sandbox.render_instant(instant timestamptz) returns text
language sql stable as $$
  select to_char(instant at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
$$;

create function sandbox.render_refund(r sandbox.refund, currency text) returns json
language sql stable as $$
  select json_build_object(
    'id', r.id,
    'reference', r.reference,
    'amount', r.amount,
    'currency', currency,
    'status', r.status,
    'created_at', sandbox.render_instant(r.created_at)
  )
$$;

-- The one rendering of a payment, for answers, lookups and lists.
create function sandbox.render_payment(p sandbox.payment) returns json
language sql stable as $$
  select json_build_object(
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
  )
$$;

create function sandbox.render_error(code text, message text) returns json
language sql immutable as $$
  select json_build_object('error', json_build_object('code', code, 'message', message))
$$;

-- A request's claim on its Idempotency-Key. `go` is null when the caller may act; else it says what to answer: the
-- first answer again, or why not. A twin of a running request waits here until the first commits.
create function sandbox.claim_key(
  key_text text, print bytea, claimant text, run_for interval, service_now timestamptz, key_window interval,
  out outcome text, out first_status integer, out first_answer text
)
language plpgsql as $$
declare
  held sandbox.idempotency_key;
begin
  insert into sandbox.idempotency_key as k (key, fingerprint, claimed_by, running_until, created_at)
  values (key_text, print, claimant, clock_timestamp() + run_for, service_now)
  on conflict (key) do update
    set fingerprint = excluded.fingerprint, claimed_by = excluded.claimed_by, status = null, answer = null,
        running_until = excluded.running_until, created_at = excluded.created_at
    -- Forgotten, or left behind by a server that died, or our own earlier claim.
    where k.created_at <= service_now - key_window
       or (k.status is null and k.fingerprint = excluded.fingerprint
           and (k.running_until < clock_timestamp() or k.claimed_by = claimant))
  returning * into held;
  if found then
    outcome := 'act';
    return;
  end if;

  select * into strict held from sandbox.idempotency_key where key = key_text;
  if held.fingerprint <> print then
    outcome := 'reused';
  elsif held.status is null then
    outcome := 'running';
  else
    outcome := 'replay';
    first_status := held.status;
    first_answer := held.answer;
  end if;
end $$;

-- Tells the merchant: one row per copy to be sent, none for a notification that shall be lost.
create function sandbox.notify(
  event_id text, type text, reference text, refund_reference text, service_now timestamptz, copies integer, delay interval
) returns void
language sql as $$
  insert into sandbox.delivery (event_id, type, reference, refund_reference, happened_at, due_at)
  select event_id, type, reference, refund_reference, service_now, clock_timestamp() + delay * n
  from generate_series(1, copies) as n
$$;

-- Takes money, or declines to, and remembers the answer: key, payment and notification in one transaction.
create function sandbox.charge(
  key_text text, print bytea, claimant text, service_now timestamptz, key_window interval,
  new_id text, reference_text text, account text, card text, amount_minor bigint, currency_code text, description_text text,
  declined_as text, first_charge_only boolean, may_repeat boolean,
  event_id text, copies integer, delay interval,
  out outcome text, out http_status integer, out answer text
)
language plpgsql as $$
declare
  claim record;
  paid  sandbox.payment;
begin
  select * into claim
  from sandbox.claim_key(key_text, print, claimant, interval '10 seconds', service_now, key_window);
  outcome := claim.outcome;
  http_status := claim.first_status;
  answer := claim.first_answer;
  if outcome <> 'act' then
    return;
  end if;

  if first_charge_only then
    perform pg_advisory_xact_lock(hashtextextended('sandbox.first_charge ' || account, 0));
    if exists (select from sandbox.payment where account_id = account and status = 'paid') then
      declined_as := 'insufficient_funds';
    end if;
  end if;

  insert into sandbox.payment
    (id, reference, copy, account_id, billing_key, amount, currency, description, status, decline_code, created_at, changed_at)
  values (
    new_id, reference_text,
    case when may_repeat then (select count(*) from sandbox.payment where reference = reference_text) else 0 end,
    account, card, amount_minor, currency_code, description_text,
    case when declined_as is null then 'paid' else 'declined' end, declined_as, service_now, service_now
  )
  on conflict (reference, copy) do nothing
  returning * into paid;
  if not found then
    delete from sandbox.idempotency_key where key = key_text;
    outcome := 'duplicate';
    return;
  end if;

  perform sandbox.notify(
    event_id, 'payment.' || paid.status, reference_text, null, service_now, copies, delay);
  http_status := case when declined_as is null then 200 else 402 end;
  answer := sandbox.render_payment(paid);
  update sandbox.idempotency_key as k
  set status = charge.http_status, answer = charge.answer
  where k.key = key_text;
end $$;

-- A payment by the merchant's reference or by our id, the first one should there be copies.
create function sandbox.find_payment(name text) returns setof sandbox.payment
language sql stable rows 1 as $$
  select * from sandbox.payment where reference = name or id = name order by copy limit 1
$$;

-- Gives money back. The payment's row lock makes refunds of one payment happen one after another.
create function sandbox.refund(
  key_text text, print bytea, claimant text, service_now timestamptz, key_window interval,
  new_id text, payment_name text, reference_text text, amount_minor bigint, expected_remaining bigint,
  refusing_cards text[], may_repeat boolean, event_id text, copies integer, delay interval,
  out outcome text, out http_status integer, out answer text, out card text
)
language plpgsql as $$
declare
  claim   record;
  paid    sandbox.payment;
  made    sandbox.refund;
begin
  select * into claim
  from sandbox.claim_key(key_text, print, claimant, interval '10 seconds', service_now, key_window);
  select billing_key into card from sandbox.find_payment(payment_name);
  outcome := claim.outcome;
  http_status := claim.first_status;
  answer := claim.first_answer;
  if outcome <> 'act' then
    return;
  end if;

  select p.* into paid
  from sandbox.payment as p
  where p.id = (select f.id from sandbox.find_payment(payment_name) as f)
  for update;
  outcome := case
    when paid.id is null then 'payment_not_found'
    when paid.status <> 'paid' then 'payment_not_paid'
    when paid.dispute_status <> 'won' then 'disputed'
    when not may_repeat and exists (select from sandbox.refund where reference = reference_text) then 'duplicate'
    when expected_remaining <> paid.amount - paid.amount_refunded then 'remaining_differs'
    when paid.amount = paid.amount_refunded then 'nothing_left'
    when amount_minor > paid.amount - paid.amount_refunded then 'exceeds_remaining'
    else 'act'
  end;
  if outcome <> 'act' then
    delete from sandbox.idempotency_key where key = key_text;
    return;
  end if;

  insert into sandbox.refund (id, payment_id, reference, copy, amount, status, created_at)
  values (
    new_id, paid.id, reference_text,
    case when may_repeat then (select count(*) from sandbox.refund where reference = reference_text) else 0 end,
    amount_minor, case when card = any (refusing_cards) then 'failed' else 'succeeded' end, service_now
  )
  returning * into made;
  if made.status = 'succeeded' then
    update sandbox.payment set amount_refunded = amount_refunded + amount_minor, changed_at = service_now where id = paid.id;
    perform sandbox.notify(
      event_id, 'payment.refunded', paid.reference, reference_text, service_now, copies, delay);
    http_status := 200;
    answer := sandbox.render_refund(made, paid.currency);
  else
    http_status := 402;
    answer := sandbox.render_error('refund_declined', 'The card''s bank does not take the money back.');
  end if;
  update sandbox.idempotency_key as k
  set status = refund.http_status, answer = refund.answer
  where k.key = key_text;
end $$;

-- The cardholder's bank takes the payment into dispute, or decides one. Null: there is no such payment, or no such dispute.
create function sandbox.dispute(
  payment_name text, new_status text, disputed_amount bigint, service_now timestamptz, event_id text
) returns json
language plpgsql as $$
declare
  paid sandbox.payment;
begin
  update sandbox.payment as p
  set dispute_status = new_status,
      dispute_amount = coalesce(p.dispute_amount, disputed_amount, p.amount - p.amount_refunded),
      dispute_opened_at = coalesce(p.dispute_opened_at, service_now),
      dispute_closed_at = case when new_status = 'open' then null else service_now end,
      changed_at = service_now
  where p.id = (select f.id from sandbox.find_payment(payment_name) as f) and p.status = 'paid'
    and (new_status = 'open' and p.dispute_status is null and p.amount > p.amount_refunded
         or new_status <> 'open' and p.dispute_status = 'open')
  returning p.* into paid;
  if not found then
    return null;
  end if;
  perform sandbox.notify(
    event_id, case new_status when 'open' then 'payment.disputed' else 'payment.dispute_closed' end,
    paid.reference, null, service_now, 1, interval '0');
  return sandbox.render_payment(paid);
end $$;

-- A refund that had succeeded comes back: the money is ours again.
create function sandbox.fail_refund(reference_text text, service_now timestamptz, event_id text) returns json
language plpgsql as $$
declare
  returned sandbox.refund;
  paid     sandbox.payment;
begin
  update sandbox.refund set status = 'failed'
  where reference = reference_text and copy = 0 and status = 'succeeded'
  returning * into returned;
  if not found then
    return null;
  end if;
  update sandbox.payment as p set amount_refunded = p.amount_refunded - returned.amount, changed_at = service_now
  where p.id = returned.payment_id
  returning p.* into paid;
  perform sandbox.notify(event_id, 'refund.failed', paid.reference, reference_text, service_now, 1, interval '0');
  return sandbox.render_payment(paid);
end $$;

-- The secret key that opens this provider, as a provider would give one to its merchant. Whoever shares the book shares it.
-- What a simulated provider keeps beside its money, in its own words.
create table sandbox.wire_object (
  wire       text not null,
  kind       text not null,
  id         text not null,
  body       jsonb not null,
  created_at timestamptz not null,
  primary key (wire, kind, id)
);
create index wire_object_body on sandbox.wire_object using gin (body jsonb_path_ops);

-- Its first answers under an idempotency key; without a status the first request still runs.
create table sandbox.wire_answer (
  wire        text not null,
  key         text not null,
  fingerprint text not null,
  status      integer,
  headers     jsonb,
  body        text,
  created_at  timestamptz not null,
  primary key (wire, key)
);

create table sandbox.secret_key (
  one  boolean primary key default true check (one),
  key  text not null default 'sk_test_' || replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', '')
);
insert into sandbox.secret_key default values;
