import { Group, Select, TextInput } from '@mantine/core'
import { useDebouncedCallback } from '@mantine/hooks'
import { useState } from 'react'
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

/** What is typed stands in the address a moment later. */
export function TextFilter({ name, label }: { name: string; label: string }) {
  const [filters, setFilters] = useFilters()
  const [text, setText] = useState(filters[name] ?? '')
  const settle = useDebouncedCallback(
    (value: string) => setFilters({ [name]: value.trim() || undefined }),
    350,
  )
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
