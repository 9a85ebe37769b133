# Debian's packages, for tools/setup, which sources this.

has_apt() { command -v dpkg-query >/dev/null && command -v apt-get >/dev/null; }

can_be_root() { [ "$(id -u)" -eq 0 ] || sudo -n true 2>/dev/null; }

missing_packages() {
  local package there
  there=" $(dpkg-query -W -f='${Package}=${db:Status-Status} ' "$@" 2>/dev/null || true)"
  for package in "$@"; do
    if [[ $there != *" $package=installed "* ]]; then echo "$package"; fi
  done
}

# Ended in its middle, dpkg wants to be asked to go on. Another apt-get that is at work is waited for.
readonly apt_script='exec 3>&1 >&2
export DEBIAN_FRONTEND=noninteractive
if [ -n "$(ls -A /var/lib/dpkg/updates 2>/dev/null)" ]; then dpkg --configure -a; fi
apt-get update -q && apt-get install -y --no-install-recommends -o DPkg::Lock::Timeout=300 -o APT::Status-Fd=3 "$@"'

# What apt-get reports as KIND:ITEM:PERCENT:TEXT: first all downloads, then all installations, each from 0 to 100.
apt_progress() {
  trap '' INT
  local kind item percent rest
  echo "0 200 Debian packages: reading the lists"
  while IFS=: read -r kind item percent rest; do
    percent=${percent%%.*}
    case $kind in
      dlstatus) echo "${percent:-0} 200 Debian packages: downloading" ;;
      pmstatus) echo "$((100 + ${percent:-0})) 200 Debian packages: ${item%%:*}" ;;
    esac
  done
}

apt_install() { # LOG PACKAGE...
  local log=$1 as_root=() status=0
  shift
  if [ "$(id -u)" -ne 0 ]; then as_root=(sudo); fi
  start_line apt_progress
  in_hand "${as_root[@]}" bash -c "$apt_script" apt-get "$@" >&"$line" 2>"$log" || status=$?
  end_line
  return $status
}

# False, with the reason on standard error, where they cannot be had.
try_packages() {
  local log=build/setup-apt.log
  say "installing $# Debian packages that are missing: $*"
  if apt_install $log "$@"; then return; fi
  if grep -q 'No space left on device' $log; then fail_for_disk /var/lib/dpkg 1000 $log; fi
  tail -n 5 $log >&2
  return 1
}

install_packages() {
  local missing
  mapfile -t missing < <(missing_packages "$@")
  if [ ${#missing[@]} -eq 0 ]; then return; fi
  if ! can_be_root; then
    fail "${#missing[@]} Debian packages are missing and there is no root or password-free sudo to install them" \
      "do:    sudo apt-get update && sudo apt-get install -y --no-install-recommends ${missing[*]}" "then run the same command again"
  fi
  try_packages "${missing[@]}" || fail "apt-get could not install ${missing[*]}" "where: build/setup-apt.log" \
    "do:    check the network and /etc/apt/sources.list, then run again"
}

debian_packages() {
  if [ -n "${WEFT_DEPS:-}" ]; then
    [ -d "$WEFT_DEPS/include" ] || fail "WEFT_DEPS is not a prefix with include/ and lib/" "where: $WEFT_DEPS"
  elif has_apt; then
    install_packages "$@"
  else
    say "this is not Debian: install the equivalents of $* yourself; the build says what it misses"
  fi
}

is_ubuntu() { grep -qsx 'ID=ubuntu' /etc/os-release; }

# Nothing is built with a browser: where it cannot be installed, its tests are skipped and say why, and the others run.
page_packages() {
  [ -z "${WEFT_DEPS:-}" ] && has_apt || return 0
  local missing wanted=("${PAGE_PACKAGES[@]}") skipped="without a browser the tests of the pages are skipped"
  if is_ubuntu; then
    wanted=("${PAGE_PACKAGES[@]/#chromium/}") # no package of Ubuntu's
    command -v chromium >/dev/null || say "Ubuntu has Chromium as a snap: sudo snap install chromium; $skipped"
  fi
  mapfile -t missing < <(missing_packages ${wanted[*]})
  if [ ${#missing[@]} -eq 0 ]; then return; fi
  if ! can_be_root; then say "no root to install ${missing[*]}: $skipped"
  elif ! try_packages "${missing[@]}"; then say "$skipped"; fi
}
