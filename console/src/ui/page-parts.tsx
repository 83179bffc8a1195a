import { Group, Text, Title } from '@mantine/core'
import { Link } from '@tanstack/react-router'
import { type ReactNode, useEffect } from 'react'

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
