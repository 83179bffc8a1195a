import { type CSSVariablesResolver, createTheme } from '@mantine/core'

export const theme = createTheme({
  primaryColor: 'indigo',
  primaryShade: { light: 8, dark: 8 },
  defaultRadius: 'md',
  fontFamily:
    'Inter, "Pretendard Variable", Pretendard, system-ui, -apple-system, "Segoe UI", "Apple SD Gothic Neo", "Noto Sans KR", sans-serif',
  fontFamilyMonospace: 'ui-monospace, SFMono-Regular, Menlo, Consolas, monospace',
  headings: {
    fontWeight: '650',
    sizes: { h1: { fontSize: '1.45rem', lineHeight: '1.25' }, h2: { fontSize: '1.05rem' } },
  },
  fontSizes: { xs: '0.75rem', sm: '0.84rem', md: '0.92rem' },
  cursorType: 'pointer',
})

/** Quiet text that is still read easily: 4.5 to 1 on every ground it stands on. */
export const cssVariables: CSSVariablesResolver = () => ({
  variables: {},
  light: {
    '--mantine-color-dimmed': '#596069',
    '--mantine-color-placeholder': '#666d76',
    '--mantine-color-error': '#c92a2a',
    '--rl-ground': '#f6f7f9',
    '--rl-card': '#ffffff',
    '--rl-line': '#e3e6ea',
    '--rl-soft': '#eef0f4',
  },
  dark: {
    '--mantine-color-dimmed': '#a6adb6',
    '--mantine-color-placeholder': '#a0a7b0',
    '--mantine-color-error': '#ff8787',
    '--mantine-color-anchor': '#91a7ff',
    '--rl-ground': '#14161a',
    '--rl-card': '#1c1f24',
    '--rl-line': '#2e333b',
    '--rl-soft': '#252930',
  },
})
