# Man pages and shell completions, made of the sample configuration and of --help, and `make install`.
$(BUILD)/quire.conf.5: config/man5.awk config/quire.conf
	@mkdir -p $(@D)
	awk -v version='$(VERSION)' -f config/man5.awk config/quire.conf > $@.part && mv $@.part $@
$(BUILD)/quire.1: config/man1.awk $(BUILD)/quire
	$(BUILD)/quire --help > $@.help && awk -v version='$(VERSION)' -f config/man1.awk $@.help > $@.part && mv $@.part $@
COMPLETIONS := $(foreach shell,bash zsh fish,$(BUILD)/quire.$(shell))
$(COMPLETIONS): $(BUILD)/quire.%: config/help.awk config/%.awk $(BUILD)/quire
	$(BUILD)/quire --help > $@.help && awk -f config/help.awk -f config/$*.awk $@.help > $@.part && mv $@.part $@
install: $(BUILD)/quire $(BUILD)/quire.1 $(BUILD)/quire.conf.5 $(COMPLETIONS) ##! into $(DESTDIR)$(PREFIX), with the sample configuration
	install -D -m 755 $(BUILD)/quire $(DESTDIR)$(PREFIX)/bin/quire
	install -D -m 644 config/quire.conf $(DESTDIR)$(PREFIX)/share/quire/quire.conf
	install -D -m 644 $(BUILD)/quire.1 $(DESTDIR)$(PREFIX)/share/man/man1/quire.1
	install -D -m 644 $(BUILD)/quire.conf.5 $(DESTDIR)$(PREFIX)/share/man/man5/quire.conf.5
	install -D -m 644 $(BUILD)/quire.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/quire
	install -D -m 644 $(BUILD)/quire.zsh $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_quire
	install -D -m 644 $(BUILD)/quire.fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/quire.fish
uninstall: ## remove what install put there
	rm -f $(DESTDIR)$(PREFIX)/bin/quire $(DESTDIR)$(PREFIX)/share/quire/quire.conf \
	      $(DESTDIR)$(PREFIX)/share/man/man1/quire.1 $(DESTDIR)$(PREFIX)/share/man/man5/quire.conf.5 \
	      $(DESTDIR)$(PREFIX)/share/bash-completion/completions/quire \
	      $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_quire \
	      $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/quire.fish
