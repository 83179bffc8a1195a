import { Anchor, CopyButton, Text, Tooltip } from '@mantine/core'
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { useMoney, useTime } from './formats.ts'
import { useSay, useStateName } from './language.tsx'

const tones: Record<string, string> = {
  active: 'good',
  paid: 'good',
  succeeded: 'good',
  done: 'good',
  valid: 'good',
  ready: 'good',
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
  resting: 'warn',
  failed: 'bad',
  dead: 'bad',
  uncollectible: 'bad',
  rejected: 'bad',
  revoked: 'bad',
  declined: 'bad',
  refused: 'bad',
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

/** A move up or down a list; up is good. */
export function Move({ up, children }: { up: boolean; children: ReactNode }) {
  return (
    <span className="rl-status">
      <span className="rl-dot" data-tone={up ? 'good' : 'bad'} aria-hidden />
      {up ? '▲' : '▼'} {children}
    </span>
  )
}

export function Money({ amount, currency }: { amount: number; currency: string }) {
  return <>{useMoney()(amount, currency)}</>
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
