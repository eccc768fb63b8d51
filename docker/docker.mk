# Packages and images.
# As the last commit's date the package's: the same files become the same package.
DEB_DATE = SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct 2>/dev/null || date +%s)
deb: deps-deb $(BUILD)/quire ##! a package for this Debian, with the systemd unit and a user: build/quire_*.deb
	@rm -rf $(BUILD)/deb $(BUILD)/quire_*.deb
	@$(MAKE) --no-print-directory install DESTDIR=$(abspath $(BUILD))/deb PREFIX=/usr >/dev/null
	@$(DEB_DATE) STAGE=$(BUILD)/deb docker/debian/build.sh '$(VERSION)' $(BUILD)
# All but the binary is of this machine's build: pages are made of what a binary says of itself.
deb-arm64: deps-deb deps-arm64 $(BUILD)/quire ## the same for arm64, cross-built: build/arm64/quire_*.deb
	@$(MAKE) --no-print-directory CC='$(ARM64_CC)' $(ARM64)/quire
	@rm -rf $(ARM64)/deb $(ARM64)/quire_*.deb
	@$(MAKE) --no-print-directory install DESTDIR=$(abspath $(ARM64))/deb PREFIX=/usr >/dev/null
	@install -m 755 $(ARM64)/quire $(ARM64)/deb/usr/bin/quire
	@$(DEB_DATE) STAGE=$(ARM64)/deb ARCHITECTURE=arm64 STRIP=aarch64-linux-gnu-strip LIKE=$(BUILD)/quire \
	    docker/debian/build.sh '$(VERSION)' $(ARM64)
docker: ## the container image
	docker build -f docker/Dockerfile --build-arg VERSION=$(VERSION) -t quire .

test-deploy: deps-test $(BUILD)/quire ## docker/: manifests, chart, alerts and dashboard against published schemas and a running server
	@QUIRE_THREADS=1 QUIRE_BIN=$(BUILD)/quire $(PYTHON) -m pytest -q -rs -p no:cacheprovider tests/deploy

test-image: deps-test deps-image $(BUILD)/quire ## docker/image.sh: the image on a base bootstrapped from Debian's packages
	@QUIRE_SLOW=1 QUIRE_BIN=$(BUILD)/quire $(PYTHON) -m pytest -q -rs -p no:cacheprovider tests/deploy/test_image.py

test-deb: deb ## the package: lintian, installed in a clean Debian, asked, purged (a minute)
	@sh tests/deps.sh mmdebstrap lintian curl systemd python3-pytest
	@QUIRE_SLOW=1 QUIRE_DEB=$$(ls $(BUILD)/quire_*.deb) $(PYTHON) -m pytest -q -rs -p no:cacheprovider tests/deploy/test_deb.py

# The libraries of another Debian (SUITE=bookworm) than this one; WHOLE=1: all of `make test` there.
SUITE ?= trixie
test-debian: deps-debian ## a clean Debian 13: make run answers in its sandbox; tests of sandbox and TLS with its libraries (minutes)
	@QUIRE_SLOW=1 QUIRE_SUITE=$(SUITE) QUIRE_WHOLE=$(WHOLE) $(PYTHON) -m pytest -q -rsP -p no:cacheprovider tests/deploy/test_debian.py

test-packages-arm64: deb deb-arm64 deps-image deps-test ## package and image for arm64: lintian, the same files, an answer in an emulator (minutes)
	@sh tests/deps.sh lintian
	@QUIRE_SLOW=1 QUIRE_BIN=$(ARM64)/quire $(PYTHON) -m pytest -q -rs -p no:cacheprovider tests/deploy/test_image.py
	@QUIRE_SLOW=1 QUIRE_DEB=$$(ls $(BUILD)/quire_*.deb) QUIRE_ARM64_DEB=$$(ls $(ARM64)/quire_*.deb) \
	    $(PYTHON) -m pytest -q -rs -p no:cacheprovider tests/deploy/test_deb_arm64.py

test-deb-vm: deb deps-numa ## the package's service under systemd, on a virtual machine: minutes
	@sh tests/deps.sh mmdebstrap cpio
	@$(PYTHON) tests/deploy/service_vm.py --folder $(NUMA) $$(ls $(BUILD)/quire_*.deb)
test-deb-vm-arm64: deb-arm64 deps-emulated ## the same on a machine of arm64
	@sh tests/deps.sh mmdebstrap cpio qemu-system-arm
	@$(PYTHON) tests/deploy/service_vm.py --folder $(NUMA) $$(ls $(ARM64)/quire_*.deb)
