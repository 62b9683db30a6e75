# A Python of that version that really starts: a plain command, or one that pyenv keeps.
find_python() {
  if "python$1" -c pass 2>/dev/null; then command -v "python$1"; return; fi
  command -v pyenv >/dev/null || return 1
  local version
  version=$(pyenv versions --bare | grep "^${1//./\\.}\\." | tail -n 1) || return 1
  PYENV_VERSION=$version pyenv which python
}
