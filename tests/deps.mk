# Debian packages that targets need. Missing ones are installed when that is allowed; otherwise the command is printed.
DEB_BUILD := gcc libc6-dev pkg-config libgnutls28-dev libuv1-dev libcjson-dev libxxhash-dev \
             libinih-dev libunistring-dev libseccomp-dev libsqlite3-dev libcurl4-gnutls-dev libzmq3-dev libmsgpack-dev \
             libhiredis-dev libncurses-dev zlib1g-dev libzstd-dev ca-certificates patch
DEB_TEST  := $(DEB_BUILD) libcmocka-dev libpcre2-dev groff-base python3 python3-pytest python3-regex python3-jsonschema python3-jinja2 \
             python3-numpy python3-zmq python3-msgpack python3-yaml libopenblas0-serial python3-pytest-xdist prometheus haproxy \
             nginx-light libnginx-mod-http-lua openssl curl redis-server zsh fish python3-pyte
DEB_LINT  := cppcheck
DEB_CLIENTS := nodejs npm python3-venv
DEB_FUZZ  := clang libclang-rt-dev
deps: ## make sure that all Debian packages are there, and a libmicrohttpd that is new enough
	@sh tests/deps.sh $(DEB_TEST) $(DEB_LINT)
	@$(MAKE) --no-print-directory deps-microhttpd
deps-microhttpd: $(MHD) ; @: ## of these libmicrohttpd, built from Debian testing's sources where the system's is older
deps-build: ; @sh tests/deps.sh $(DEB_BUILD)
deps-test:  ; @sh tests/deps.sh $(DEB_TEST)
deps-lint:  ; @sh tests/deps.sh $(DEB_LINT)
deps-clients: ; @{ command -v npm && $(PYTHON) -c 'import ensurepip'; } >/dev/null 2>&1 || sh tests/deps.sh $(DEB_CLIENTS)
deps-page: ; @{ command -v npm && command -v chromium; } >/dev/null 2>&1 || sh tests/deps.sh nodejs npm chromium
deps-mca: ; @sh tests/deps.sh llvm-19 gcc-aarch64-linux-gnu
deps-arm64: ## the cross compiler for arm64, its packages in build/arm64/sysroot, and the emulator
	@sh tests/deps.sh gcc-aarch64-linux-gnu pkg-config qemu-user mmdebstrap
	@sh tests/arm64/sysroot.sh build/arm64/sysroot libc6-dev libgcc-s1 $(filter lib%-dev zlib1g-dev,$(DEB_TEST))
	@$(MAKE) --no-print-directory CC='$(ARM64_CC)' deps-microhttpd
deps-image: ; @sh tests/deps.sh mmdebstrap buildah
deps-debian: ; @sh tests/deps.sh mmdebstrap curl python3-pytest
deps-deb: ; @sh tests/deps.sh dpkg-dev binutils
# Programs of arm64 run by themselves: the kernel knows the emulator by their first bytes.
deps-emulated: ; @sh tests/deps.sh arch-test binfmt-support qemu-user-static
	@test -e /proc/sys/fs/binfmt_misc/qemu-aarch64 || { mount -t binfmt_misc none /proc/sys/fs/binfmt_misc; \
	    update-binfmts --enable qemu-aarch64; } || { echo 'no binfmt_misc here: run this as root' >&2; exit 1; }
deps-numa:  ; @mkdir -p build/numa && sh tests/deps.sh qemu-system-x86
deps-real:  ; @$(PYTHON) -c 'import ensurepip' >/dev/null 2>&1 || sh tests/deps.sh python3 python3-venv
deps-fuzz:  ; @sh tests/deps.sh $(DEB_BUILD) $(DEB_FUZZ)

