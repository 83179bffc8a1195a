import { Group, Select, TextInput } from '@mantine/core'
import { useDebouncedCallback } from '@mantine/hooks'
import { useEffect, useRef, useState } from 'react'
import { useFilters } from './filters.ts'
import { useSay, useStateName } from './language.tsx'

export function StatusFilter({ states, name = 'status' }: { states: readonly string[]; name?: string }) {
  const say = useSay()
  const stateName = useStateName()
  const [filters, setFilters] = useFilters()
  return (
    <Select
      size="xs"
      w={170}
      aria-label={say('status')}
      data={[
        { value: '', label: say('all') },
        ...states.map((value) => ({ value, label: stateName(value) })),
      ]}
      value={filters[name] ?? ''}
      onChange={(value) => setFilters({ [name]: value || undefined })}
      allowDeselect={false}
    />
  )
}

/** What is typed stands in the address a moment later, and what the address says stands here. */
export function TextFilter({ name, label }: { name: string; label: string }) {
  const [filters, setFilters] = useFilters()
  const addressed = filters[name] ?? ''
  const [text, setText] = useState(addressed)
  const settled = useRef(addressed)
  const settle = useDebouncedCallback((value: string) => {
    settled.current = value.trim()
    setFilters({ [name]: settled.current || undefined })
  }, 350)
  // A link may change it too; what is being typed is left alone.
  useEffect(() => {
    if (addressed === settled.current) return
    settled.current = addressed
    setText(addressed)
  }, [addressed])
  return (
    <TextInput
      size="xs"
      w={210}
      aria-label={label}
      placeholder={label}
      value={text}
      onChange={({ currentTarget: { value } }) => {
        setText(value)
        settle(value)
      }}
    />
  )
}

export function FilterBar({ children }: { children: React.ReactNode }) {
  return (
    <Group gap="xs" mb="sm">
      {children}
    </Group>
  )
}
