import { Anchor, Button, CopyButton, Group, Skeleton, Stack, Text, Title, Tooltip } from '@mantine/core'
import type { UseInfiniteQueryResult, UseQueryResult } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { type ReactNode, useEffect } from 'react'
import { ApiError } from '../api/client.ts'
import { useLanguage, useSay, useStateName } from './language.tsx'

/** A page's name, what it may do, and the title of the tab. */
export function PageHead({
  title,
  note,
  children,
}: {
  title: string
  note?: ReactNode
  children?: ReactNode
}) {
  useEffect(() => {
    document.title = `${title} · Rankledger`
  }, [title])
  return (
    <Group justify="space-between" align="flex-end" mb="md" gap="sm">
      <div>
        <Title order={1}>{title}</Title>
        {note && (
          <Text component="div" size="sm" c="dimmed" mt={2}>
            {note}
          </Text>
        )}
      </div>
      {children && <Group gap="xs">{children}</Group>}
    </Group>
  )
}

export function Card({
  title,
  note,
  action,
  children,
  flush,
}: {
  title?: string
  note?: ReactNode
  action?: ReactNode
  children: ReactNode
  flush?: boolean
}) {
  return (
    <section className="rl-card">
      {title && (
        <Group justify="space-between" px={18} pt={14} pb={flush ? 10 : 0} gap="xs">
          <div>
            <Title order={2}>{title}</Title>
            {note && (
              <Text size="xs" c="dimmed" mt={2}>
                {note}
              </Text>
            )}
          </div>
          {action}
        </Group>
      )}
      <div className={flush ? undefined : 'rl-pad'}>{children}</div>
    </section>
  )
}

const tones: Record<string, string> = {
  active: 'good',
  paid: 'good',
  succeeded: 'good',
  done: 'good',
  valid: 'good',
  trialing: 'busy',
  running: 'busy',
  queued: 'busy',
  pending: 'busy',
  incomplete: 'busy',
  waiting: 'busy',
  candidate: 'busy',
  canceling: 'warn',
  past_due: 'warn',
  open: 'warn',
  partially_refunded: 'warn',
  expired: 'warn',
  replaced: 'warn',
  failed: 'bad',
  dead: 'bad',
  uncollectible: 'bad',
  rejected: 'bad',
  revoked: 'bad',
  declined: 'bad',
}

export function Status({ of }: { of: string }) {
  const name = useStateName()
  return (
    <span className="rl-status">
      <span className="rl-dot" data-tone={tones[of]} aria-hidden />
      {name(of)}
    </span>
  )
}

export function useMoney(): (amount: number, currency: string) => string {
  const { language } = useLanguage()
  return (amount, currency) => {
    const format = new Intl.NumberFormat(language, { style: 'currency', currency })
    return format.format(amount / 10 ** (format.resolvedOptions().maximumFractionDigits ?? 2))
  }
}

export function Money({ amount, currency }: { amount: number; currency: string }) {
  return <>{useMoney()(amount, currency)}</>
}

export function useNumber(): (value: number, options?: Intl.NumberFormatOptions) => string {
  const { language } = useLanguage()
  return (value, options) => new Intl.NumberFormat(language, options).format(value)
}

/** An instant as it is written: the wall clock of the zone it was given in. */
function wallClock(instant: string): Date {
  return new Date(`${instant.slice(0, 19)}Z`)
}

export function useTime(): (instant: string, style?: 'day' | 'minute') => string {
  const { language } = useLanguage()
  return (instant, style = 'minute') =>
    new Intl.DateTimeFormat(language, {
      dateStyle: 'medium',
      ...(style === 'minute' && { timeStyle: 'short' }),
      timeZone: 'UTC',
    }).format(wallClock(instant))
}

/** A time in the account's zone; the exact instant is told on hover. */
export function When({ at, day }: { at: string | null | undefined; day?: boolean }) {
  const time = useTime()
  if (!at)
    return (
      <Text span c="dimmed">
        –
      </Text>
    )
  return (
    <time dateTime={at} title={at} style={{ whiteSpace: 'nowrap' }}>
      {time(at, day ? 'day' : 'minute')}
    </time>
  )
}

export function useAge(): (seconds: number) => string {
  const { language } = useLanguage()
  return (seconds) => {
    const [value, unit] =
      seconds < 90
        ? [seconds, 'second']
        : seconds < 5400
          ? [seconds / 60, 'minute']
          : seconds < 172_800
            ? [seconds / 3600, 'hour']
            : [seconds / 86_400, 'day']
    return new Intl.NumberFormat(language, {
      style: 'unit',
      unit: unit as string,
      unitDisplay: 'short',
      maximumFractionDigits: 0,
    }).format(value as number)
  }
}

/** One of our ids, short enough for a table, whole when copied. */
export function Id({ of, copy }: { of: string; copy?: boolean }) {
  const say = useSay()
  const short = of.length > 20 ? `${of.slice(0, 8)}…${of.slice(-6)}` : of
  if (!copy)
    return (
      <span className="rl-id" title={of}>
        {short}
      </span>
    )
  return (
    <CopyButton value={of}>
      {({ copied, copy: take }) => (
        <Tooltip label={copied ? say('copied') : say('copy')}>
          <Anchor
            component="button"
            type="button"
            onClick={take}
            className="rl-id"
            c="dimmed"
            underline="hover"
          >
            {of}
          </Anchor>
        </Tooltip>
      )}
    </CopyButton>
  )
}

export function To({
  to,
  children,
  className = 'rl-link',
}: {
  to: string
  children: ReactNode
  className?: string
}) {
  return (
    <Link to={to} className={className}>
      {children}
    </Link>
  )
}

export function Empty({ title, hint, children }: { title: string; hint?: string; children?: ReactNode }) {
  return (
    <Stack align="center" gap={6} py={44} px="md" ta="center">
      <svg
        width="40"
        height="40"
        viewBox="0 0 32 32"
        aria-hidden
        fill="none"
        stroke="currentColor"
        opacity="0.35"
        strokeWidth="2"
        strokeLinecap="round"
      >
        <path d="M6 25V18m6.7 7V13m6.6 12v-8M26 25V8" />
      </svg>
      <Text fw={600}>{title}</Text>
      {hint && (
        <Text size="sm" c="dimmed" maw={420}>
          {hint}
        </Text>
      )}
      {children}
    </Stack>
  )
}

export function Failure({ error, retry }: { error: unknown; retry?: () => void }) {
  const say = useSay()
  const isOurs = error instanceof ApiError
  const title = isOurs && error.status === 403 ? say('forbidden') : say('failed')
  return (
    <Empty title={title} hint={isOurs ? error.message : String((error as Error)?.message ?? error)}>
      {isOurs && error.requestId && (
        <Text size="xs" c="dimmed">
          {say('quote', { id: error.requestId })}
        </Text>
      )}
      {retry && (
        <Button size="xs" variant="default" onClick={retry}>
          {say('retry')}
        </Button>
      )}
    </Empty>
  )
}

/** Loading, failed, or there. */
export function Loaded<T>({
  query,
  children,
  rows = 6,
}: {
  query: UseQueryResult<T>
  children: (data: T) => ReactNode
  rows?: number
}) {
  if (query.data !== undefined) return <>{children(query.data)}</>
  if (query.isError) return <Failure error={query.error} retry={() => void query.refetch()} />
  return <Waiting rows={rows} />
}

export function Waiting({ rows }: { rows: number }) {
  const say = useSay()
  return (
    <Stack gap={10} p="md" role="status" aria-label={say('loading')}>
      {Array.from({ length: rows }, (_, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: they are all alike
        <Skeleton key={at} height={18} radius="sm" width={`${96 - (at % 3) * 14}%`} />
      ))}
    </Stack>
  )
}

export type Column<T> = {
  head: string
  cell: (row: T) => ReactNode
  /** Not on a telephone. */
  wide?: boolean
  /** Numbers stand at the right edge. */
  end?: boolean
}

export function Table<T>({
  label,
  rows,
  columns,
  keyOf,
}: {
  label: string
  rows: readonly T[]
  columns: readonly Column<T>[]
  keyOf: (row: T) => string
}) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard
    <section className="rl-scroll" tabIndex={0} aria-label={label}>
      <table className="rl-table">
        <thead>
          <tr>
            {columns.map(({ head, wide, end }) => (
              <th key={head} data-wide={wide || undefined} data-end={end || undefined} scope="col">
                {head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={keyOf(row)}>
              {columns.map(({ head, cell, wide, end }) => (
                <td key={head} data-wide={wide || undefined} data-end={end || undefined}>
                  {cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  )
}

/** A list of the API: page after page, with what to say when there is nothing. */
export function List<P, T>({
  label,
  query,
  rowsOf,
  columns,
  keyOf,
  empty,
}: {
  label: string
  query: UseInfiniteQueryResult<{ pages: P[] }>
  rowsOf: (page: P) => readonly T[]
  columns: readonly Column<T>[]
  keyOf: (row: T) => string
  empty: ReactNode
}) {
  const say = useSay()
  if (query.isError && !query.data) return <Failure error={query.error} retry={() => void query.refetch()} />
  if (!query.data) return <Waiting rows={8} />
  const rows = query.data.pages.flatMap(rowsOf)
  if (rows.length === 0) return <>{empty}</>
  return (
    <>
      <Table label={label} rows={rows} columns={columns} keyOf={keyOf} />
      {query.hasNextPage && (
        <Group justify="center" p="sm">
          <Button
            size="xs"
            variant="default"
            loading={query.isFetchingNextPage}
            onClick={() => void query.fetchNextPage()}
          >
            {say('more')}
          </Button>
        </Group>
      )}
    </>
  )
}

export function Facts({ of }: { of: readonly (readonly [string, ReactNode])[] }) {
  return (
    <dl className="rl-facts">
      {of.map(([name, value]) => (
        <div key={name} style={{ display: 'contents' }}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  )
}

export function Figure({
  label,
  value,
  note,
  to,
}: {
  label: string
  value: ReactNode
  note?: ReactNode
  to?: string
}) {
  const body = (
    <>
      <Text size="xs" c="dimmed" fw={550}>
        {label}
      </Text>
      <div className="rl-number">{value}</div>
      {note && (
        <Text component="div" size="xs" c="dimmed" mt={3}>
          {note}
        </Text>
      )}
    </>
  )
  if (!to) return <div className="rl-card rl-pad">{body}</div>
  return (
    <Link
      to={to}
      className="rl-card rl-pad"
      style={{ textDecoration: 'none', color: 'inherit', display: 'block' }}
    >
      {body}
    </Link>
  )
}
